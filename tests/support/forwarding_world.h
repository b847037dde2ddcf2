#pragma once

#include <exception>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace tessera::test {

/// A world that does what another does. A test overrides what it wants otherwise; its communicators are made by wrap().
class ForwardingWorld : public comm::World {
 public:
  explicit ForwardingWorld(comm::World& inner) : inner_(inner) {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  std::string host() const override { return inner_.host(); }
  int local_rank() const override { return inner_.local_rank(); }
  int local_size() const override { return inner_.local_size(); }
  comm::Communicator& communicator(const std::vector<std::int64_t>& ranks) final {
    auto& group = groups_[ranks];
    if (group == nullptr) group = wrap(inner_.communicator(ranks), ranks);
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

 protected:
  /// The communicator of a group around that of the inner world.
  virtual std::unique_ptr<comm::Communicator> wrap(comm::Communicator& inner,
                                                   const std::vector<std::int64_t>& ranks) = 0;

 private:
  comm::World& inner_;
  std::map<std::vector<std::int64_t>, std::unique_ptr<comm::Communicator>> groups_;
};

}  // namespace tessera::test
