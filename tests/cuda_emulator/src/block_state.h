#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "fiber.h"
#include "grid.h"

namespace tessera::cuda_emulator {

/// A thread of the running block.
struct Thread {
  enum class State : std::uint8_t { kFresh, kReady, kAtWarp, kAtBlock, kDone };
  uint3 index;
  State state;
  std::uint16_t number;  // in the block
  Fiber* fiber;
  Where where;                  // it waits
  unsigned source;              // of a shuffle, a lane
  std::uint64_t value, result;  // of a warp's operation
};

/// Lanes that wait for each other.
struct LaneGroup {
  unsigned mask, arrived;
  WarpOp op;
  Where where;
};

struct Warp {
  std::array<LaneGroup, 32> groups;
  unsigned group_count = 0;
  unsigned members = 0, runnable = 0, at_block = 0, done = 0;  // bits by lane
  std::uint16_t epoch = 0;                                     // operations so far
};

/// The running block. A thread that never waits costs a function call: the fiber that returns takes the next one.
class BlockState {
 public:
  void begin_grid(const Launch& launch);
  void begin_block(uint3 index);
  void run();  // every thread to its end, or to a fault
  bool faulted() const { return faulted_; }
  void end_grid();

  void barrier(Where where);
  int vote(Vote vote, bool predicate, Where where);
  std::uint64_t warp_collective(WarpOp op, unsigned mask, std::uint64_t value, unsigned source, Where where);
  [[noreturn]] void fault_here(const std::string& what);

  const Thread& current() const { return *current_; }
  const Warp& warp_of(const Thread& t) const { return warps_[t.number / 32]; }
  std::string name(const Thread& t) const;

 private:
  static Fiber* fiber_body();
  void thread_body();
  Thread* pick();
  unsigned choose(unsigned bits) const;
  void wake(unsigned warp, unsigned lanes);
  void make_current(Thread* t);
  void resume(Thread* t);
  void wait(Thread::State state, Where where);
  void release_barrier();
  LaneGroup& join_group(WarpOp op, unsigned mask, unsigned lane, Where where);
  std::string who_waits() const;

  const Launch* launch_ = nullptr;
  Fibers fibers_{fiber_body};
  std::vector<Thread> threads_;
  std::array<Warp, 32> warps_;
  Thread* current_ = nullptr;
  unsigned runnable_warps_ = 0, warp_now_ = 0;
  unsigned at_barrier_ = 0, finished_ = 0;
  Where barrier_where_;
  std::uint32_t serial_ = 0;  // blocks so far
  std::uint16_t epoch_ = 0;   // barriers so far
  int count_ = 0, all_ = 1, any_ = 0;
  std::array<int, 3> votes_{};  // by Vote, of the last barrier
  bool faulted_ = false;
};

BlockState& block_state();

/// file:line
std::string to_string(Where where);

}  // namespace tessera::cuda_emulator
