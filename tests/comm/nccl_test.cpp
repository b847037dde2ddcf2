#include "comm/nccl.h"

#include <cstring>
#include <map>
#include <memory>
#include <utility>

#include <gtest/gtest.h>

#include "comm/collectives.h"
#include "comm/counting.h"
#include "comm/mpi_main.h"
#include "device/cuda.h"

namespace tessera::comm {
namespace {

/// Lets the tests of collectives on host memory run on GPUs: copies what a call reads to the device and what it writes
/// back.
class MirroredCommunicator final : public Communicator {
 public:
  MirroredCommunicator(Communicator& inner, device::Device& device) : inner_(inner), device_(device) {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  void barrier() override { inner_.barrier(); }

  void all_reduce(const std::vector<Piece>& pieces, DType dtype, Reduce reduce) override {
    mirror(pieces, dtype, 1, 1, [&](const auto& there) { inner_.all_reduce(there, dtype, reduce); });
  }
  void reduce_scatter(const std::vector<Piece>& pieces, DType dtype, Reduce reduce) override {
    mirror(pieces, dtype, size(), 1, [&](const auto& there) { inner_.reduce_scatter(there, dtype, reduce); });
  }
  void all_gather(const std::vector<Piece>& pieces, DType dtype) override {
    mirror(pieces, dtype, 1, size(), [&](const auto& there) { inner_.all_gather(there, dtype); });
  }
  void all_to_all(const std::vector<Piece>& pieces, DType dtype) override {
    mirror(pieces, dtype, 1, 1, [&](const auto& there) { inner_.all_to_all(there, dtype); });
  }
  void box_exchange(const void* in, const std::vector<BoxTransfer>& sends, void* out,
                    const std::vector<BoxTransfer>& receives, DType dtype) override {
    const auto bytes = [&](const std::vector<BoxTransfer>& list) {
      return list.empty() ? 0 : elements(list[0].tensor) * size_of(dtype);
    };
    const auto from = sent(in, bytes(sends)), to = sent(out, bytes(receives));
    inner_.box_exchange(from.get(), sends, to.get(), receives, dtype);
    device_.synchronize();
    device_.copy_out(out, to.get(), bytes(receives));
  }

 private:
  std::shared_ptr<void> sent(const void* host, std::int64_t bytes) {
    auto memory = device_.allocate(bytes);
    device_.copy_in(memory.get(), host, bytes);
    return memory;
  }

  template <typename Call>
  void mirror(const std::vector<Piece>& pieces, DType dtype, int in_chunks, int out_chunks, const Call& call) {
    std::vector<std::shared_ptr<void>> memory;
    std::vector<Piece> there;
    const auto in_bytes = [&](const Piece& p) { return p.count * size_of(dtype); };
    const auto out_bytes = [&](const Piece& p) { return p.count / in_chunks * out_chunks * size_of(dtype); };
    for (const auto& p : pieces) {
      memory.push_back(sent(p.in, in_bytes(p)));
      const auto* in = memory.back().get();
      if (p.in != p.out) memory.push_back(sent(p.out, out_bytes(p)));
      there.push_back({in, memory.back().get(), p.count});
    }
    call(there);
    device_.synchronize();
    for (std::size_t k = 0; k < pieces.size(); ++k) device_.copy_out(pieces[k].out, there[k].out, out_bytes(pieces[k]));
  }

  Communicator& inner_;
  device::Device& device_;
};

class MirroredWorld final : public World {
 public:
  explicit MirroredWorld(World& control)
      : device_(device::cuda_backend().make_device({.index = control.local_rank()})),
        inner_(nccl_backend().make_world(control, {.stream = device_->native_stream(device::Stream::kComm)})) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  std::string host() const override { return inner_->host(); }
  int local_rank() const override { return inner_->local_rank(); }
  int local_size() const override { return inner_->local_size(); }
  Communicator& communicator(const std::vector<std::int64_t>& ranks) override {
    auto& mirrored = groups_[ranks];
    if (mirrored == nullptr) mirrored = std::make_unique<MirroredCommunicator>(inner_->communicator(ranks), *device_);
    return *mirrored;
  }
  void* communication_region(std::int64_t bytes) override {
    inner_->communication_region(bytes);
    region_.assign(static_cast<std::size_t>(bytes), std::byte{0});
    return region_.data();
  }
  const Counters& counters() const override { return inner_->counters(); }
  void barrier() override { inner_->barrier(); }
  std::string broadcast(const std::string& text, int root) override { return inner_->broadcast(text, root); }
  std::vector<std::string> gather(const std::string& text) override { return inner_->gather(text); }
  bool any(bool flag) override { return inner_->any(flag); }
  [[noreturn]] void abort(int exit_code, const std::string& sentence) override {
    inner_->abort(exit_code, sentence);
    std::terminate();
  }

 private:
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<World> inner_;
  std::vector<std::byte> region_;
  std::map<std::vector<std::int64_t>, std::unique_ptr<MirroredCommunicator>> groups_;
};

/// One test, one device: it leaves when the test ends.
class Nccl : public ::testing::Test {
 protected:
  MirroredWorld world_{test_world()};
};

TEST_F(Nccl, ControlPlane) { check_control_plane(world_); }
TEST_F(Nccl, CollectivesMatchTheNaiveResult) { check_collectives(world_); }
TEST_F(Nccl, BoxesArriveWhereTheyBelong) { check_box_exchange(world_); }
TEST_F(Nccl, SumsAreTheSameBits) { check_bits(world_, false); }
TEST_F(Nccl, CallsAndBytesAreCounted) { check_counters(world_); }
TEST_F(Nccl, RanksThatRunAheadDoNoHarm) { check_in_a_hurry(world_); }

}  // namespace
}  // namespace tessera::comm
