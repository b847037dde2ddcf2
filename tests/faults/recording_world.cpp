#include "faults/recording_world.h"

#include <exception>

#include <fmt/format.h>

namespace tessera::faults {
namespace {

class RecordingCommunicator final : public comm::Communicator {
 public:
  RecordingCommunicator(comm::Communicator& inner, Recording& recording, std::vector<std::int64_t> group, int rank)
      : inner_(inner), recording_(recording), group_(std::move(group)), rank_(rank) {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  void all_reduce(const std::vector<comm::Piece>& pieces, DType dtype, comm::Reduce reduce) override {
    note(reduce == comm::Reduce::kSum ? "all_reduce" : "all_reduce max", pieces, dtype);
    inner_.all_reduce(pieces, dtype, reduce);
  }
  void reduce_scatter(const std::vector<comm::Piece>& pieces, DType dtype, comm::Reduce reduce) override {
    note("reduce_scatter", pieces, dtype);
    inner_.reduce_scatter(pieces, dtype, reduce);
  }
  void all_gather(const std::vector<comm::Piece>& pieces, DType dtype) override {
    note("all_gather", pieces, dtype);
    inner_.all_gather(pieces, dtype);
  }
  void all_to_all(const std::vector<comm::Piece>& pieces, DType dtype) override {
    note("all_to_all", pieces, dtype);
    inner_.all_to_all(pieces, dtype);
  }
  void box_exchange(const void* in, const std::vector<comm::BoxTransfer>& sends, void* out,
                    const std::vector<comm::BoxTransfer>& receives, DType dtype) override {
    note("box_exchange", {}, dtype);  // each rank has boxes of its own
    inner_.box_exchange(in, sends, out, receives, dtype);
  }
  void barrier() override {
    note("barrier", {}, DType::kU8);
    inner_.barrier();
  }

 private:
  void note(const std::string& kind, const std::vector<comm::Piece>& pieces, DType dtype) {
    auto call = kind + " " + to_string(dtype);
    for (const auto& piece : pieces) call += fmt::format(" {}", piece.count);
    recording_.add(group_, rank_, std::move(call));
  }

  comm::Communicator& inner_;
  Recording& recording_;
  std::vector<std::int64_t> group_;
  int rank_;
};

class RecordingWorld final : public comm::World {
 public:
  RecordingWorld(comm::World& inner, Recording& recording) : inner_(inner), recording_(recording) {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  std::string host() const override { return inner_.host(); }
  int local_rank() const override { return inner_.local_rank(); }
  int local_size() const override { return inner_.local_size(); }
  comm::Communicator& communicator(const std::vector<std::int64_t>& ranks) override {
    auto& group = groups_[ranks];
    if (group == nullptr)
      group = std::make_unique<RecordingCommunicator>(inner_.communicator(ranks), recording_, ranks, rank());
    return *group;
  }
  void* communication_region(std::int64_t bytes) override { return inner_.communication_region(bytes); }
  const comm::Counters& counters() const override { return inner_.counters(); }
  void barrier() override { inner_.barrier(); }
  std::string broadcast(const std::string& text, int root) override { return inner_.broadcast(text, root); }
  std::vector<std::string> gather(const std::string& text) override { return inner_.gather(text); }
  bool any(bool flag) override { return inner_.any(flag); }
  [[noreturn]] void abort(int exit_code, const std::string& sentence) override {
    inner_.abort(exit_code, sentence);
    std::terminate();  // the compiler does not see that it is never reached
  }

 private:
  comm::World& inner_;
  Recording& recording_;
  std::map<std::vector<std::int64_t>, std::unique_ptr<comm::Communicator>> groups_;
};

}  // namespace

std::unique_ptr<comm::World> Recording::around(comm::World& world) {
  return std::make_unique<RecordingWorld>(world, *this);
}

void Recording::add(const std::vector<std::int64_t>& group, int rank, std::string call) {
  const std::lock_guard lock(mutex_);
  groups[group][rank].push_back(std::move(call));
}

}  // namespace tessera::faults
