#include "faults/recording_world.h"

#include <fmt/format.h>

#include "support/forwarding_world.h"

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

class RecordingWorld final : public test::ForwardingWorld {
 public:
  RecordingWorld(comm::World& inner, Recording& recording) : ForwardingWorld(inner), recording_(recording) {}

 private:
  std::unique_ptr<comm::Communicator> wrap(comm::Communicator& inner, const std::vector<std::int64_t>& ranks) override {
    return std::make_unique<RecordingCommunicator>(inner, recording_, ranks, rank());
  }

  Recording& recording_;
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
