#include <algorithm>
#include <cstring>
#include <exception>
#include <map>

#include "comm/nccl.h"
#include "comm/nccl/nccl_communicator.h"
#include "core/error.h"
#include "core/text.h"

namespace tessera::comm {
namespace {

class NcclWorld final : public World {
 public:
  NcclWorld(World& control, const NcclOptions& options)
      : control_(control), windows_(options.windows), shared_(static_cast<cudaStream_t>(options.stream)) {
    shared_.most_blocks = options.most_blocks;
    shared_.look = [this](double seconds) { look_at_peers(seconds); };
    shared_.doing = [this] { return doing(); };
    set_deadline(control.deadline());
  }

  ~NcclWorld() override {
    control_.set_context(nullptr);
    if (std::uncaught_exceptions() > exceptions_) abort_all();  // the peers will not come to the end
    groups_.clear();
    (void)ncclMemFree(region_);
  }

  int rank() const override { return control_.rank(); }
  int size() const override { return control_.size(); }
  std::string host() const override { return control_.host(); }
  int local_rank() const override { return control_.local_rank(); }
  int local_size() const override { return control_.local_size(); }
  const Counters& counters() const override { return shared_.counters; }

  // The id of a group is made by its first rank and goes through the control plane, which also brings all ranks here.
  Communicator& communicator(const std::vector<std::int64_t>& ranks) override {
    auto& group = groups_[ranks];
    if (group != nullptr) return *group;
    ncclUniqueId id{};
    const auto own = std::find(ranks.begin(), ranks.end(), rank());
    TESSERA_CHECK(own != ranks.end(), "rank {} is not in its group", rank());
    if (own == ranks.begin()) check(ncclGetUniqueId(&id), "ncclGetUniqueId");
    const auto ids = control_.gather(std::string(id.internal, sizeof id.internal));
    std::memcpy(id.internal, ids[static_cast<std::size_t>(ranks.front())].data(), sizeof id.internal);
    control_.barrier();
    std::vector<std::string> names;
    names.reserve(ranks.size());
    for (const auto member : ranks) names.push_back(std::to_string(member));
    group = std::make_unique<NcclCommunicator>(static_cast<int>(own - ranks.begin()), static_cast<int>(ranks.size()),
                                               id, "ranks " + join(names, " "), shared_);
    if (windows_ && region_ != nullptr) group->register_window(region_, region_bytes_);
    return *group;
  }

  void* communication_region(std::int64_t bytes) override {
    TESSERA_CHECK(!windows_ || groups_.empty(), "a communication region after the communicators that register it");
    check(ncclMemFree(region_), "ncclMemFree");
    region_ = nullptr;
    region_bytes_ = bytes;
    check(ncclMemAlloc(&region_, static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1))), "ncclMemAlloc");
    check(cudaMemsetAsync(region_, 0, static_cast<std::size_t>(bytes), shared_.stream), "cudaMemsetAsync");
    check(cudaStreamSynchronize(shared_.stream), "cudaStreamSynchronize");
    control_.barrier();
    return region_;
  }
  void use_exchange_memory(void* memory, std::int64_t bytes) override { shared_.exchange.use(memory, bytes); }

  void barrier() override { control_.barrier(); }
  std::string broadcast(const std::string& text, int root) override { return control_.broadcast(text, root); }
  std::vector<std::string> gather(const std::string& text) override { return control_.gather(text); }
  bool any(bool flag) override {
    lend_context();
    return control_.any(flag);
  }

  void begin_step(std::int64_t step) override { control_.begin_step(step); }
  void check_queued() override {
    for (const auto& [ranks, group] : groups_)
      if (const auto error = group->error(); error != ncclSuccess)
        fail(ExitCode::kPeerLost, "{} failed: {}", doing(), ncclGetErrorString(error));
  }
  void look_at_queued(double seconds) override {
    look_at_peers(seconds);  // a rank that has failed says more than the error that it left here
    check_queued();
  }

  [[noreturn]] void abort(int exit_code, const std::string& sentence) override {
    abort_all();
    control_.abort(exit_code, sentence);
    std::terminate();  // GCC does not see that a virtual function never returns
  }

 private:
  std::string doing() const { return to_string(context()); }
  void lend_context() {
    control_.set_context(context());
    control_.set_deadline(deadline());
  }
  void look_at_peers(double seconds) {
    lend_context();
    control_.look_at_queued(seconds);
  }
  void abort_all() {
    for (const auto& [ranks, group] : groups_) group->abort();
  }

  World& control_;
  bool windows_;
  int exceptions_ = std::uncaught_exceptions();
  NcclCommunicator::Shared shared_;
  void* region_ = nullptr;
  std::int64_t region_bytes_ = 0;
  std::map<std::vector<std::int64_t>, std::unique_ptr<NcclCommunicator>> groups_;
};

std::unique_ptr<World> make_world(World& control, const NcclOptions& options) {
  return std::make_unique<NcclWorld>(control, options);
}

std::string version() {
  int number = 0;
  check(ncclGetVersion(&number), "ncclGetVersion");
  return fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
}

}  // namespace

/// What the loader looks up in the shared object.
extern "C" __attribute__((visibility("default"))) const NcclBackend* tessera_nccl_backend() {
  static const NcclBackend kBackend{make_world, version};
  return &kBackend;
}

}  // namespace tessera::comm
