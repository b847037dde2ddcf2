#include "emulated/meddling_world.h"

#include <exception>

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

class MeddlingWorld final : public comm::World {
 public:
  MeddlingWorld(comm::World& inner, Meddle meddle) : inner_(inner), meddle_(std::move(meddle)) {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  std::string host() const override { return inner_.host(); }
  int local_rank() const override { return inner_.local_rank(); }
  int local_size() const override { return inner_.local_size(); }
  comm::Communicator& communicator(const std::vector<std::int64_t>& ranks) override {
    auto& group = groups_[ranks];
    if (group == nullptr) group = std::make_unique<MeddlingCommunicator>(inner_.communicator(ranks), meddle_);
    return *group;
  }
  void* communication_region(std::int64_t bytes) override { return inner_.communication_region(bytes); }
  const comm::Counters& counters() const override { return inner_.counters(); }
  void barrier() override { inner_.barrier(); }
  std::string broadcast(const std::string& text, int root) override { return inner_.broadcast(text, root); }
  std::vector<std::string> gather(const std::string& text) override { return inner_.gather(text); }
  bool any(bool flag) override { return inner_.any(flag); }
  void use_exchange_memory(void* memory, std::int64_t bytes) override { inner_.use_exchange_memory(memory, bytes); }
  void begin_step(std::int64_t step) override { inner_.begin_step(step); }
  void check_queued() override { inner_.check_queued(); }
  void look_at_queued(double seconds) override { inner_.look_at_queued(seconds); }
  [[noreturn]] void abort(int exit_code, const std::string& sentence) override {
    inner_.abort(exit_code, sentence);
    std::terminate();  // the compiler does not see that it is never reached
  }

 private:
  comm::World& inner_;
  Meddle meddle_;
  std::map<std::vector<std::int64_t>, std::unique_ptr<comm::Communicator>> groups_;
};

}  // namespace

std::unique_ptr<comm::World> meddling_world(comm::World& inner, Meddle meddle) {
  return std::make_unique<MeddlingWorld>(inner, std::move(meddle));
}

}  // namespace tessera::mutations
