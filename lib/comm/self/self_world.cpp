#include <cstdio>
#include <cstdlib>
#include <unistd.h>

#include "comm/aligned.h"
#include "comm/host.h"
#include "comm/self/self_communicator.h"
#include "core/error.h"

namespace tessera::comm {
namespace {

class SelfWorld final : public World {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::string host() const override { return host_name(); }
  int local_rank() const override { return 0; }
  int local_size() const override { return 1; }

  Communicator& communicator(const std::vector<std::int64_t>& ranks) override {
    TESSERA_CHECK(ranks == std::vector<std::int64_t>{0}, "a group of {} ranks in a world of one", ranks.size());
    return self_;
  }

  void* communication_region(std::int64_t bytes) override {
    region_ = AlignedBytes(bytes);
    return region_.data();
  }

  const Counters& counters() const override { return counters_; }
  void barrier() override {}
  std::string broadcast(const std::string& text, int) override { return text; }
  std::vector<std::string> gather(const std::string& text) override { return {text}; }
  bool any(bool flag) override { return flag; }

  [[noreturn]] void abort(int exit_code, const std::string& sentence) override {
    std::fprintf(stderr, "error: %s\n", sentence.c_str());
    std::fflush(nullptr);
    std::_Exit(exit_code);
  }

 private:
  SelfCommunicator self_;
  Counters counters_;
  AlignedBytes region_;
};

}  // namespace

std::unique_ptr<World> make_self_world() { return std::make_unique<SelfWorld>(); }

}  // namespace tessera::comm
