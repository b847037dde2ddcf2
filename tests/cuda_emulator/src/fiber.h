#pragma once

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "grid.h"

namespace tessera::cuda_emulator {

/// A flow of control with a stack of its own, in one thread of the host.
struct Fiber {
  boost::context::detail::fcontext_t context = nullptr;
  char* stack = nullptr;  // lowest byte
  std::size_t size = 0;
};

/// The fibers of a block: at most 1,024. A fiber runs `body` again and again; the body switches away at its end.
class Fibers {
 public:
  /// Called on a fiber: runs threads until none is left for it, then returns the fiber to go to.
  using Body = Fiber* (*)();
  explicit Fibers(Body body) : body_(body) {}

  Fiber* take();
  void give_back(Fiber* fiber) { free_.push_back(fiber); }

  /// All fibers start afresh, whatever they were doing.
  void reset();

  /// To `to`, until something switches back.
  void switch_to(Fiber* to);
  Fiber* running() const { return running_; }
  /// The flow that isn't a fiber of a thread: the scheduler.
  Fiber* root() { return &root_; }

  AddressRange stacks() const { return {base_, kStack * kCount}; }
  /// True if a thread has used more stack than there is.
  bool overflowed() const;

 private:
  static constexpr std::size_t kStack = std::size_t(64) * 1024, kCount = 1024;
  static void start(boost::context::detail::transfer_t from);
  void prepare(Fiber* fiber);
  void map();

  Body body_;
  std::uintptr_t base_ = 0;
  Fiber root_;
  Fiber* running_ = &root_;
  std::vector<Fiber*> free_, all_;
};

}  // namespace tessera::cuda_emulator
