// A block's threads are fibers of one thread of the host, with barriers between them.
#include <bit>
#include <chrono>
#include <cstring>

#include "block_state.h"
#include "fault.h"
#include "random.h"
#include "settings.h"
#include "thread_state.h"

// In a section of their own, so that the access check knows them.
#define BUILTIN __attribute__((section("cuda_builtin")))
BUILTIN uint3 threadIdx{};
BUILTIN uint3 blockIdx{};
BUILTIN dim3 blockDim{};
BUILTIN dim3 gridDim{};

namespace tessera::cuda_emulator {

BlockState& block_state() {
  static BlockState& b = *new BlockState;  // never destroyed: the thread that runs streams outlives main
  return b;
}

std::string to_string(Where where) {
  const char* name = std::strrchr(where.file, '/');
  return std::string(name == nullptr ? where.file : name + 1) + ":" + std::to_string(where.line);
}

std::string BlockState::name(const Thread& t) const {
  return "thread " + std::to_string(t.number) + " of block (" + std::to_string(blockIdx.x) + "," +
         std::to_string(blockIdx.y) + "," + std::to_string(blockIdx.z) + ")";
}

void BlockState::begin_grid(const Launch& launch) {
  launch_ = &launch;
  blockDim = launch.block;
  gridDim = launch.grid;
  faulted_ = false;
  running_thread.first_block = serial_ + 1;
  threads_.assign(std::size_t(blockDim.x) * blockDim.y * blockDim.z, {});
  for (unsigned i = 0; i < threads_.size(); ++i) {
    threads_[i].number = std::uint16_t(i);
    threads_[i].index = {i % blockDim.x, i / blockDim.x % blockDim.y, i / (blockDim.x * blockDim.y)};
  }
}

void BlockState::begin_block(uint3 index) {
  blockIdx = index;
  ++serial_;
  epoch_ = 0;
  at_barrier_ = finished_ = runnable_warps_ = 0;
  count_ = any_ = 0, all_ = 1;
  for (Thread& t : threads_) t.state = Thread::State::kFresh, t.fiber = nullptr;
  const unsigned size = unsigned(threads_.size());
  for (unsigned w = 0; w * 32 < size; ++w) {
    Warp& warp = warps_[w];
    warp.group_count = warp.runnable = warp.at_block = warp.done = 0;
    warp.epoch = 0;
    warp.members = size - w * 32 >= 32 ? ~0u : (1u << (size - w * 32)) - 1;
    wake(w, warp.members);
  }
  warp_now_ = choose(runnable_warps_);
}

void BlockState::run() {
  this_thread.in_kernel = true;
  while (!faulted_ && finished_ < threads_.size()) {
    Thread* next = pick();
    if (next == nullptr) {
      faulted_ = true;
      fault("deadlock: " + who_waits());
      break;
    }
    resume(next);
  }
  this_thread.in_kernel = false;
}

void BlockState::end_grid() {
  if (!faulted_ && fibers_.overflowed()) {
    faulted_ = true;
    fault("a kernel's thread needs more than the emulator's 64 KiB of stack");
  }
  if (faulted_) fibers_.reset();  // abandoned in the middle of a thread
}

unsigned BlockState::choose(unsigned bits) const {
  switch (settings().threads) {
    case ThreadOrder::kForward:
      return unsigned(std::countr_zero(bits));
    case ThreadOrder::kReverse:
      return 31 - unsigned(std::countl_zero(bits));
    case ThreadOrder::kRandom:
      break;
  }
  const unsigned turn = random_order().next() & 31;
  return (unsigned(std::countr_zero(std::rotr(bits, int(turn)))) + turn) & 31;
}

// The next thread to run: of the same warp while it has one.
Thread* BlockState::pick() {
  if (warps_[warp_now_].runnable == 0) {
    runnable_warps_ &= ~(1u << warp_now_);
    if (runnable_warps_ == 0) return nullptr;
    warp_now_ = choose(runnable_warps_);
  }
  const unsigned lane = choose(warps_[warp_now_].runnable);
  warps_[warp_now_].runnable &= ~(1u << lane);
  return &threads_[warp_now_ * 32 + lane];
}

void BlockState::wake(unsigned warp, unsigned lanes) {
  if (lanes == 0) return;
  warps_[warp].runnable |= lanes;
  runnable_warps_ |= 1u << warp;
}

void BlockState::make_current(Thread* t) {
  current_ = t;
  threadIdx = t->index;
  running_thread.position = {serial_, epoch_, warps_[t->number / 32].epoch, t->number};
}

void BlockState::resume(Thread* t) {
  if (t->fiber == nullptr) t->fiber = fibers_.take();
  running_thread.stacks = fibers_.stacks();
  make_current(t);
  fibers_.switch_to(t->fiber);
}

void BlockState::thread_body() {
  current_->state = Thread::State::kReady;
  launch_->call->run();
  current_->state = Thread::State::kDone;
  warps_[current_->number / 32].done |= 1u << (current_->number % 32);
  ++finished_;
  if (at_barrier_ > 0)
    fault_here(name(*current_) + " returned while others wait at __syncthreads (" + to_string(barrier_where_) + ")");
}

Fiber* BlockState::fiber_body() {
  BlockState& b = block_state();
  for (;;) {
    b.thread_body();
    Thread* next = b.pick();
    if (next != nullptr && next->state == Thread::State::kFresh) {
      next->fiber = b.fibers_.running();
      b.make_current(next);
      continue;
    }
    b.fibers_.give_back(b.fibers_.running());
    if (next == nullptr) return b.fibers_.root();
    b.make_current(next);
    return next->fiber;
  }
}

std::string BlockState::who_waits() const {
  std::string list;
  int waiting = 0;
  for (const Thread& t : threads_) {
    const bool at_block = t.state == Thread::State::kAtBlock;
    if (!at_block && t.state != Thread::State::kAtWarp) continue;
    if (++waiting <= 3)
      list += "; " + name(t) + " waits at " + (at_block ? "__syncthreads " : "a warp operation ") + to_string(t.where);
  }
  return std::to_string(finished_) + " returned, " + std::to_string(waiting) + " wait" + list;
}

// The current thread waits; others go on until it is woken.
void BlockState::wait(Thread::State state, Where where) {
  Thread* self = current_;
  self->state = state;
  self->where = where;
  Thread* next = pick();
  if (next == nullptr) fault_here("deadlock: " + who_waits());
  if (next == self)
    make_current(self);  // elsewhere by now
  else
    resume(next);
  self->state = Thread::State::kReady;
}

void BlockState::fault_here(const std::string& what) {
  faulted_ = true;
  fault(what);
  fibers_.switch_to(fibers_.root());
  __builtin_unreachable();  // reset before anything goes on here
}

void BlockState::barrier(Where where) {
  if (finished_ > 0)
    fault_here(name(*current_) + " waits at __syncthreads (" + to_string(where) + ") but others have returned");
  if (at_barrier_ == 0) barrier_where_ = where;
  if (where.line != barrier_where_.line || std::strcmp(where.file, barrier_where_.file) != 0)
    fault_here("divergent barrier: " + name(*current_) + " at " + to_string(where) + ", others at " +
               to_string(barrier_where_));
  warps_[current_->number / 32].at_block |= 1u << (current_->number % 32);
  if (++at_barrier_ == threads_.size()) release_barrier();
  wait(Thread::State::kAtBlock, where);
}

void BlockState::release_barrier() {
  at_barrier_ = 0;
  ++epoch_;
  votes_ = {count_, all_, any_};
  count_ = any_ = 0, all_ = 1;
  for (unsigned w = 0; w * 32 < threads_.size(); ++w) {
    wake(w, warps_[w].at_block);
    warps_[w].at_block = 0;
  }
  warp_now_ = choose(runnable_warps_);
}

int BlockState::vote(Vote vote, bool predicate, Where where) {
  count_ += predicate, all_ &= predicate, any_ |= predicate;
  barrier(where);
  return votes_[static_cast<std::size_t>(vote)];
}

void kernel_fault(const std::string& what) { block_state().fault_here(what); }
void kernel_trap(const char* what) { kernel_fault(what + (" in " + block_state().name(block_state().current()))); }
void block_barrier(Where where) { block_state().barrier(where); }
int block_vote(Vote vote, bool predicate, Where where) { return block_state().vote(vote, predicate, where); }
long long clock_ticks() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

}  // namespace tessera::cuda_emulator
