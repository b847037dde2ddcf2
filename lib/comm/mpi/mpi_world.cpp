#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <thread>
#include <unistd.h>
#include <utility>

#include <climits>

#include "comm/mpi/check.h"
#include "comm/mpi/launcher_end.h"
#include "comm/mpi/multi_node_communicator.h"
#include "comm/mpi/node_control.h"
#include "comm/mpi/session.h"
#include "comm/mpi/shared_window.h"
#include "comm/node/shared_memory_communicator.h"
#include "comm/self/self_communicator.h"
#include "core/error.h"

namespace tessera::comm {
namespace {

/// Deadlines that a wait for another node lasts: inside the node where a rank is missing it is known which, so that
/// one's sentence comes first.
constexpr double kMessagePatience = 1.1;
constexpr std::int64_t kStagingBytes = 1 << 20;

bool is_crowded(int ranks_of_host) { return ranks_of_host > sysconf(_SC_NPROCESSORS_ONLN); }

class MpiWorld final : public World {
 public:
  MpiWorld(int* argc, char*** argv, const MpiOptions& options)
      : session_(argc, argv, options.ranks_per_node),
        control_bytes_(session_.node_rank == 0 ? NodeControl::bytes(session_.node_size) : 0),
        window_(session_.node, control_bytes_ + kStagingBytes, "the control of collectives"),
        control_(reinterpret_cast<NodeControl*>(window_.data(0))),
        watch_(make_watch(1)),
        message_watch_(make_watch(kMessagePatience)),
        patient_watch_(make_watch(kControlPatience)),
        messages_(session_.world, patient_watch_, is_crowded(session_.local_size)),
        votes_(session_.world, message_watch_, is_crowded(session_.local_size)) {
    control_bytes_ = NodeControl::bytes(session_.node_size);
    memory_.staging_bytes = kStagingBytes;
    for (int rank = 0; rank < session_.node_size; ++rank) {
      memory_.ranks.push_back({nullptr, window_.data(rank) + (rank == 0 ? control_bytes_ : 0)});
    }
  }

  ~MpiWorld() override {
    if (session_.unwinding()) {
      say_failed();
      return;
    }
    region_.free();
    window_.free();
  }

  int rank() const override { return session_.rank; }
  int size() const override { return session_.size; }
  std::string host() const override { return session_.host; }
  int local_rank() const override { return session_.local_rank; }
  int local_size() const override { return session_.local_size; }
  const Counters& counters() const override { return counters_; }

  Communicator& communicator(const std::vector<std::int64_t>& ranks) override {
    if (ranks.size() == 1) {
      TESSERA_CHECK(ranks[0] == rank(), "rank {} is not in the group of {}", rank(), ranks[0]);
      return self_;
    }
    auto& group = groups_[ranks];
    if (group == nullptr) group = make_communicator(ranks);
    return *group;
  }

  void* communication_region(std::int64_t bytes) override {
    memory_.region_bytes = 0;  // nothing lies in it until the new one is there
    region_.free();
    region_ = SharedWindow(session_.node, bytes, "the communication region");
    for (int rank = 0; rank < session_.node_size; ++rank) {
      memory_.ranks[static_cast<std::size_t>(rank)].region = region_.data(rank);
    }
    memory_.region_bytes = bytes;
    return region_.data(session_.node_rank);
  }

  void barrier() override {
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Ibarrier(session_.world, &request), "MPI_Ibarrier");
    wait(request, "barrier");
  }

  std::string broadcast(const std::string& text, int root) override {
    const bool sends = rank() == root;
    auto length = static_cast<std::int64_t>(text.size());
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Ibcast(&length, 1, MPI_INT64_T, root, session_.world, &request), "MPI_Ibcast");
    wait(request, "broadcast");
    auto result = sends ? text : std::string(static_cast<std::size_t>(length), '\0');
    constexpr std::int64_t kMost = 1 << 30;  // MPI counts with int
    for (std::int64_t at = 0; at < length; at += kMost) {
      const auto part = static_cast<int>(std::min(kMost, length - at));
      check(MPI_Ibcast(result.data() + at, part, MPI_BYTE, root, session_.world, &request), "MPI_Ibcast");
      wait(request, "broadcast");
    }
    return result;
  }

  std::vector<std::string> gather(const std::string& text) override {
    const auto ranks = static_cast<std::size_t>(size());
    const auto own = static_cast<std::int64_t>(text.size());
    std::vector<std::int64_t> lengths(ranks);
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Iallgather(&own, 1, MPI_INT64_T, lengths.data(), 1, MPI_INT64_T, session_.world, &request),
          "MPI_Iallgather");
    wait(request, "gather");
    std::int64_t total = 0;
    std::vector<int> counts, starts;
    for (const auto length : lengths) {
      starts.push_back(static_cast<int>(total));
      counts.push_back(static_cast<int>(length));
      total += length;
      TESSERA_CHECK(total <= INT_MAX, "gather of over {} bytes of text", total);
    }
    std::string all(static_cast<std::size_t>(total), '\0');
    check(MPI_Iallgatherv(text.data(), static_cast<int>(own), MPI_BYTE, all.data(), counts.data(), starts.data(),
                          MPI_BYTE, session_.world, &request),
          "MPI_Iallgatherv");
    wait(request, "gather");
    std::vector<std::string> texts;
    for (std::size_t r = 0; r < ranks; ++r) {
      texts.push_back(all.substr(static_cast<std::size_t>(starts[r]), static_cast<std::size_t>(counts[r])));
    }
    return texts;
  }

  bool any(bool flag) override {
    int mine = flag ? 1 : 0;
    int any_is = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Iallreduce(&mine, &any_is, 1, MPI_INT, MPI_MAX, session_.world, &request), "MPI_Iallreduce");
    votes_.add(request);
    votes_.wait("the vote of all ranks");
    return any_is != 0;
  }

  void begin_step(std::int64_t step) override {
    if (session_.node_rank < NodeControl::kMostRanks) control_->steps[session_.node_rank] = step;
  }

  void look_at_queued(double seconds) override { watch_.look("a collective", seconds, behind(), watch_.first_dead()); }

  [[noreturn]] void abort(int exit_code, const std::string& sentence) override {
    if (control_->aborting.exchange(1) == 0) {
      say_failed();
      const auto me = watch_.name_of(rank()) + ": ";
      std::fprintf(stderr, "error: %s%s\n", sentence.starts_with(me) ? "" : me.c_str(), sentence.c_str());
      std::fflush(nullptr);
      end_launcher_after(deadline());
      MPI_Abort(MPI_COMM_WORLD, exit_code);
    } else {
      std::this_thread::sleep_for(
          std::chrono::seconds(10));  // another rank of the node ends the job, with its sentence
    }
    std::_Exit(exit_code);
  }

 private:
  Watch make_watch(double patience) const {
    const auto alive = [this](int rank) {
      const long pid = session_.pids[static_cast<std::size_t>(rank)];
      return pid == 0 || is_running(pid);
    };
    const auto outside = [this](int rank) -> std::atomic<std::int32_t>* {
      const auto r = static_cast<std::size_t>(rank);
      const int there = session_.node_rank_of[r];
      const bool told = session_.node_of[r] == session_.node_of[static_cast<std::size_t>(session_.rank)] &&
                        there < NodeControl::kMostRanks;
      return told ? &control_->outside[there] : nullptr;
    };
    return {*this, session_.hosts, &control_->failed, alive, patience, outside};
  }

  /// Ranks of the node that have not come to this rank's step.
  std::vector<int> behind() const {
    std::vector<int> ranks;
    const auto own = std::min(session_.node_rank, NodeControl::kMostRanks - 1);
    for (int rank = 0; rank < size(); ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      const int there = session_.node_rank_of[r];
      if (session_.node_of[r] != session_.node_of[static_cast<std::size_t>(session_.rank)]) continue;
      if (there < NodeControl::kMostRanks && control_->steps[there] < control_->steps[own]) ranks.push_back(rank);
    }
    return ranks;
  }

  void say_failed() {
    std::uint32_t none = 0;
    control_->failed.compare_exchange_strong(none, static_cast<std::uint32_t>(rank()) + 1);
  }

  void wait(MPI_Request request, const char* what) {
    messages_.add(request);
    messages_.wait(what);
  }

  std::unique_ptr<Communicator> make_communicator(const std::vector<std::int64_t>& ranks) {
    const std::vector<int> world_ranks(ranks.begin(), ranks.end());
    const auto node_of = [&](int world_rank) { return session_.node_of[static_cast<std::size_t>(world_rank)]; };
    std::vector<std::vector<int>> nodes;  // members by node
    std::vector<int> first_ranks;         // of these nodes
    std::vector<int> local_world_ranks, local_node_ranks;
    int own = -1, local_own = -1;
    for (int member = 0; member < static_cast<int>(world_ranks.size()); ++member) {
      const int world_rank = world_ranks[static_cast<std::size_t>(member)];
      TESSERA_CHECK(0 <= world_rank && world_rank < size(), "rank {} in a world of {}", world_rank, size());
      const auto node = std::find(first_ranks.begin(), first_ranks.end(), node_of(world_rank)) - first_ranks.begin();
      if (node == std::ssize(first_ranks)) {
        first_ranks.push_back(node_of(world_rank));
        nodes.emplace_back();
      }
      nodes[static_cast<std::size_t>(node)].push_back(member);
      if (node_of(world_rank) != node_of(rank())) continue;
      if (world_rank == rank()) {
        own = member;
        local_own = static_cast<int>(local_world_ranks.size());
      }
      local_world_ranks.push_back(world_rank);
      local_node_ranks.push_back(session_.node_rank_of[static_cast<std::size_t>(world_rank)]);
    }
    TESSERA_CHECK(own >= 0, "rank {} is not in its group", rank());
    auto* members = control_->group(ranks, static_cast<int>(local_world_ranks.size()), control_bytes_);
    TESSERA_CHECK(members != nullptr, "no shared memory left for another group of {} ranks", ranks.size());
    const bool crowded = is_crowded(local_size());
    NodeGroup local(members, local_own, local_node_ranks, local_world_ranks, memory_, watch_, crowded);
    if (nodes.size() == 1) return std::make_unique<SharedMemoryCommunicator>(std::move(local), counters_);
    constexpr std::int64_t kTags = 32767;  // what every MPI has
    std::int64_t tag = 0;
    for (const auto world_rank : ranks) tag = (tag * 31 + world_rank + 1) % kTags;
    if (message_memory_ == nullptr) message_memory_ = std::make_unique<MessageMemory>(kStagingBytes);
    return std::make_unique<MultiNodeCommunicator>(world_ranks, nodes, own, std::move(local),
                                                   Messages(session_.world, message_watch_, crowded),
                                                   static_cast<int>(tag), *message_memory_, counters_);
  }

  Session session_;
  std::int64_t control_bytes_;
  SharedWindow window_;  // NodeControl on the node's first rank, then each rank's staging memory
  SharedWindow region_;
  NodeControl* control_;
  NodeMemory memory_;
  Counters counters_;
  Watch watch_, message_watch_, patient_watch_;
  Messages messages_;  // of the control plane
  Messages votes_;     // in every step: they wait no longer than a collective
  SelfCommunicator self_;
  std::unique_ptr<MessageMemory> message_memory_;  // where a group lies on several nodes
  std::map<std::vector<std::int64_t>, std::unique_ptr<Communicator>> groups_;
};

}  // namespace

std::unique_ptr<World> make_mpi_world(int* argc, char*** argv, const MpiOptions& options) {
  return std::make_unique<MpiWorld>(argc, argv, options);
}

std::string mpi_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  check(MPI_Get_library_version(text, &length), "MPI_Get_library_version");
  const std::string version(text, static_cast<std::size_t>(length));
  return version.substr(0, version.find_first_of(",\n"));
}

}  // namespace tessera::comm
