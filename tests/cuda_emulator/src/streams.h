#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "cuda_runtime_api.h"

namespace tessera::cuda_emulator {

using Clock = std::chrono::steady_clock;
/// Called until it is true; the stream waits meanwhile, other streams go on.
using Poll = std::function<bool()>;

/// Work for a stream. `make` is called each time that it is enqueued; what it returns, when its turn comes.
struct Task {
  const char* name;
  std::function<Poll()> make;
};

/// A task that is one call of f.
Task once(const char* name, std::function<void()> f);

class Capture;

struct Event {
  std::uint64_t recorded = 0, completed = 0;  // numbers of its records
  CUstream_st* stream = nullptr;              // of the latest record, and its place there
  std::uint64_t place = 0;
  Clock::time_point time;
  // The latest record was captured, not run: by which capture, and which of its calls that is.
  bool captured = false;
  std::weak_ptr<Capture> capture;
  std::size_t captured_record = 0;
};

/// One entry of a stream: a task, a record of an event, or the wait for one.
struct Op {
  enum class Kind { kTask, kRecord, kWait } kind;
  Poll poll;                     // of a task
  std::shared_ptr<Event> event;  // of a record or a wait
  std::uint64_t number = 0;      // of that event's records
  CUstream_st* other = nullptr;  // a wait: where that record stands
  std::uint64_t place = 0;
  bool started = false;
};

}  // namespace tessera::cuda_emulator

struct CUstream_st {
  int device = 0, priority = 0;
  std::deque<tessera::cuda_emulator::Op> ops;  // issued and not done
  std::uint64_t issued = 0, done = 0;
  bool destroyed = false;           // goes when its work is done
  std::atomic<int> in_progress{0};  // NCCL calls that may not be on the stream yet
  std::shared_ptr<tessera::cuda_emulator::Capture> capture;
};

struct CUevent_st {
  std::shared_ptr<tessera::cuda_emulator::Event> event;  // queued ops may outlive the handle
  bool timed;
};

namespace tessera::cuda_emulator {

constexpr int kAllDevices = -1;

/// Runs what was enqueued, on one thread, in an order that the program allows and that is chosen to hurt: nothing runs
/// before a host thread waits, polls, or has issued nothing for a while (StreamOrder::kEager: at once).
class Scheduler {
 public:
  CUstream_st* create(int device, int priority);
  void destroy(CUstream_st* stream);
  bool knows(CUstream_st* stream) const;  // created and not destroyed

  /// An error if the stream is not one of ours or the context is lost.
  cudaError_t put(CUstream_st* stream, Op op);
  cudaError_t record(CUstream_st* stream, const std::shared_ptr<Event>& event);
  cudaError_t wait_event(CUstream_st* stream, const std::shared_ptr<Event>& event);

  cudaError_t synchronize(CUstream_st* stream);
  cudaError_t synchronize(const Event& event);
  cudaError_t synchronize_device(int device);
  cudaError_t query(CUstream_st* stream);
  cudaError_t query(const Event& event);
  /// Whether all that was issued on `stream` begins after op `place` of `other` has ended, by events or because it has.
  bool is_ordered_after(CUstream_st* stream, CUstream_st* other, std::uint64_t place) const;
  cudaError_t elapsed(const Event& from, const Event& to, float* ms);

 private:
  using Lock = std::unique_lock<std::mutex>;
  using Needs = std::map<CUstream_st*, std::uint64_t>;  // so many ops of each stream

  void run();
  /// One op of one stream; false if none can go on.
  bool step(Lock& lock);
  bool finish(CUstream_st* stream);
  void need(CUstream_st* stream, std::uint64_t upto, Needs& needs) const;
  bool may_start(CUstream_st* stream, const Needs& needed) const;
  Clock::duration pause() const;
  void want(CUstream_st* stream, std::uint64_t upto);
  void wait_for(Lock& lock, CUstream_st* stream, std::uint64_t upto);
  bool known(CUstream_st* stream) const;

  mutable std::mutex mutex_;
  std::condition_variable work_, progress_;
  std::set<CUstream_st*> streams_;
  Needs wanted_;  // by host threads
  Clock::time_point last_issue_;
  bool started_ = false;
};

Scheduler& scheduler();

}  // namespace tessera::cuda_emulator
