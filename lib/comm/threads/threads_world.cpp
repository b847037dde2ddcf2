#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>

#include "comm/aligned.h"
#include "comm/host.h"
#include "comm/node/shared_memory_communicator.h"
#include "comm/node/watch.h"
#include "comm/self/self_communicator.h"
#include "core/error.h"

namespace tessera::comm {
namespace {

constexpr std::int64_t kStagingBytes = 64 << 10;

/// What the threads share.
struct Job {
  explicit Job(int ranks)
      : size(ranks),
        ended(static_cast<std::size_t>(ranks)),
        regions(static_cast<std::size_t>(ranks)),
        texts(static_cast<std::size_t>(ranks)),
        control(std::make_unique<Member[]>(static_cast<std::size_t>(ranks))) {
    memory.staging_bytes = kStagingBytes;
    for (int rank = 0; rank < ranks; ++rank) {
      staging.emplace_back(kStagingBytes);
      memory.ranks.push_back({nullptr, staging.back().data()});
    }
  }

  /// The members' memory of a group; made by the first who asks.
  Member* group(const std::vector<std::int64_t>& ranks) {
    const std::lock_guard lock(mutex);
    auto& members = groups[ranks];
    if (members == nullptr) members = std::make_unique<Member[]>(ranks.size());
    return members.get();
  }

  void fail_with(int rank, std::exception_ptr exception) {
    const std::lock_guard lock(mutex);
    if (first != nullptr) return;
    first = std::move(exception);
    failed.store(static_cast<std::uint32_t>(rank) + 1, std::memory_order_release);
  }

  int size;
  NodeMemory memory;
  std::vector<AlignedBytes> staging;
  std::vector<std::atomic<bool>> ended;
  std::vector<AlignedBytes> regions;
  std::vector<std::string> texts;  // of broadcast and gather, by rank
  std::unique_ptr<Member[]> control;
  std::atomic<std::uint32_t> failed{0};
  std::exception_ptr first;
  std::mutex mutex;
  std::map<std::vector<std::int64_t>, std::unique_ptr<Member[]>> groups;
};

std::vector<int> all_of(int ranks) {
  std::vector<int> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

class ThreadsWorld final : public World {
 public:
  ThreadsWorld(Job& job, int rank)
      : job_(job),
        rank_(rank),
        watch_(make_watch(1)),
        control_watch_(make_watch(kControlPatience)),
        control_(job.control.get(), rank, all_of(job.size), all_of(job.size), job.memory, control_watch_, crowded()) {}

  int rank() const override { return rank_; }
  int size() const override { return job_.size; }
  std::string host() const override { return host_name(); }
  int local_rank() const override { return rank_; }
  bool ranks_are_processes() const override { return size() == 1; }
  int local_size() const override { return job_.size; }

  Communicator& communicator(const std::vector<std::int64_t>& ranks) override {
    if (ranks.size() == 1) {
      TESSERA_CHECK(ranks[0] == rank_, "rank {} is not in the group of {}", rank_, ranks[0]);
      return self_;
    }
    auto& group = groups_[ranks];
    if (group == nullptr) group = make_communicator(ranks);
    return *group;
  }

  void* communication_region(std::int64_t bytes) override {
    const auto index = static_cast<std::size_t>(rank_);
    barrier();  // no collective reads the old one any more
    job_.regions[index] = AlignedBytes(bytes);
    job_.memory.ranks[index].region = job_.regions[index].data();
    if (rank_ == 0) job_.memory.region_bytes = bytes;
    barrier();
    return job_.regions[index].data();
  }

  const Counters& counters() const override { return counters_; }

  void barrier() override {
    control_.round(Kind::kBarrier, {signature(Kind::kBarrier, DType::kU8, Reduce::kSum, 0), 0});
  }

  std::string broadcast(const std::string& text, int root) override {
    return gather(text)[static_cast<std::size_t>(root)];
  }

  std::vector<std::string> gather(const std::string& text) override {
    job_.texts[static_cast<std::size_t>(rank_)] = text;
    barrier();
    auto texts = job_.texts;
    barrier();
    return texts;
  }

  bool any(bool flag) override {
    job_.texts[static_cast<std::size_t>(rank_)] = flag ? "yes" : "";  // once a step: no copies
    barrier();
    const bool any_is =
        std::any_of(job_.texts.begin(), job_.texts.end(), [](const auto& text) { return !text.empty(); });
    barrier();
    return any_is;
  }

  [[noreturn]] void abort(int exit_code, const std::string& sentence) override {
    throw Error(static_cast<ExitCode>(exit_code), sentence);
  }

 private:
  bool crowded() const { return job_.size > static_cast<int>(std::thread::hardware_concurrency()); }

  Watch make_watch(double patience) const {
    return {*this, std::vector<std::string>(static_cast<std::size_t>(job_.size), host_name()), &job_.failed,
            [this](int rank) { return !job_.ended[static_cast<std::size_t>(rank)].load(std::memory_order_acquire); },
            patience};
  }

  std::unique_ptr<Communicator> make_communicator(const std::vector<std::int64_t>& ranks) {
    const std::vector<int> members(ranks.begin(), ranks.end());
    const auto own = std::find(members.begin(), members.end(), rank_);
    TESSERA_CHECK(own != members.end(), "rank {} is not in its group", rank_);
    return std::make_unique<SharedMemoryCommunicator>(
        NodeGroup(job_.group(ranks), static_cast<int>(own - members.begin()), members, members, job_.memory, watch_,
                  crowded()),
        counters_);
  }

  Job& job_;
  int rank_;
  Counters counters_;
  Watch watch_, control_watch_;
  NodeGroup control_;
  SelfCommunicator self_;
  std::map<std::vector<std::int64_t>, std::unique_ptr<Communicator>> groups_;
};

}  // namespace

void run_on_threads(int ranks, const std::function<void(World&)>& body) {
  Job job(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&job, &body, rank] {
      try {
        ThreadsWorld world(job, rank);
        body(world);
      } catch (...) {
        job.fail_with(rank, std::current_exception());
      }
      job.ended[static_cast<std::size_t>(rank)].store(true, std::memory_order_release);
    });
  }
  for (auto& thread : threads) thread.join();
  if (job.first != nullptr) std::rethrow_exception(job.first);
}

}  // namespace tessera::comm
