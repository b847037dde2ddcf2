#include "emulated/meddling_world.h"

#include "support/forwarding_world.h"

namespace tessera::mutations {
namespace {

using comm::BoxTransfer;
using comm::Piece;

class MeddlingCommunicator final : public comm::Communicator {
 public:
  MeddlingCommunicator(comm::Communicator& inner, const Meddle& meddle) : inner_(inner), meddle_(meddle) {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  void all_reduce(const std::vector<Piece>& pieces, DType dtype, comm::Reduce reduce) override {
    meddle_([this, pieces, dtype, reduce] { inner_.all_reduce(pieces, dtype, reduce); });
  }
  void reduce_scatter(const std::vector<Piece>& pieces, DType dtype, comm::Reduce reduce) override {
    meddle_([this, pieces, dtype, reduce] { inner_.reduce_scatter(pieces, dtype, reduce); });
  }
  void all_gather(const std::vector<Piece>& pieces, DType dtype) override {
    meddle_([this, pieces, dtype] { inner_.all_gather(pieces, dtype); });
  }
  void all_to_all(const std::vector<Piece>& pieces, DType dtype) override {
    meddle_([this, pieces, dtype] { inner_.all_to_all(pieces, dtype); });
  }
  void box_exchange(const void* in, const std::vector<BoxTransfer>& sends, void* out,
                    const std::vector<BoxTransfer>& receives, DType dtype) override {
    meddle_([this, in, sends, out, receives, dtype] { inner_.box_exchange(in, sends, out, receives, dtype); });
  }
  void barrier() override { inner_.barrier(); }

 private:
  comm::Communicator& inner_;
  const Meddle& meddle_;
};

class MeddlingWorld final : public test::ForwardingWorld {
 public:
  MeddlingWorld(comm::World& inner, Meddle meddle) : ForwardingWorld(inner), meddle_(std::move(meddle)) {}

 private:
  std::unique_ptr<comm::Communicator> wrap(comm::Communicator& inner, const std::vector<std::int64_t>&) override {
    return std::make_unique<MeddlingCommunicator>(inner, meddle_);
  }

  Meddle meddle_;
};

}  // namespace

std::unique_ptr<comm::World> meddling_world(comm::World& inner, Meddle meddle) {
  return std::make_unique<MeddlingWorld>(inner, std::move(meddle));
}

}  // namespace tessera::mutations
