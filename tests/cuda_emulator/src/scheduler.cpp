#include <algorithm>
#include <cstdlib>
#include <thread>
#include <utility>

#include "fault.h"
#include "protection.h"
#include "random.h"
#include "settings.h"
#include "streams.h"

namespace tessera::cuda_emulator {
namespace {

// Between polls of a task that has started; between looks whether the patience is at its end.
constexpr Clock::duration kPollInterval = std::chrono::microseconds(50), kLookInterval = std::chrono::milliseconds(2);

// Ranks of one seed have different orders.
unsigned seed_of_rank(unsigned seed) {
  const std::string rank = mpi_rank();
  return seed + 7919 * unsigned(rank.empty() ? 0 : std::atoi(rank.c_str()));
}

}  // namespace

Random& random_order() {
  static Random r(seed_of_rank(settings().seed));
  return r;
}

void set_order(StreamOrder streams, ThreadOrder threads, unsigned seed) {
  settings().streams = streams;
  settings().threads = threads;
  random_order().start(seed_of_rank(seed));
}

Scheduler& scheduler() {
  static Scheduler& s = *new Scheduler;  // never destroyed: its thread outlives main
  return s;
}

Task once(const char* name, std::function<void()> f) {
  return {name, [f = std::move(f)]() -> Poll {
            return [f] {
              f();
              return true;
            };
          }};
}

CUstream_st* Scheduler::create(int device, int priority) {
  const Lock lock(mutex_);
  auto* stream = new CUstream_st;
  stream->device = device;
  stream->priority = priority;
  streams_.insert(stream);
  return stream;
}

void Scheduler::destroy(CUstream_st* stream) {
  const Lock lock(mutex_);
  if (!known(stream)) return;
  stream->destroyed = true;
  wanted_.erase(stream);
  if (!stream->ops.empty()) return;
  streams_.erase(stream);
  delete stream;
}

bool Scheduler::knows(CUstream_st* stream) const {
  const Lock lock(mutex_);
  return known(stream);
}

bool Scheduler::known(CUstream_st* stream) const { return streams_.contains(stream) && !stream->destroyed; }

cudaError_t Scheduler::put(CUstream_st* stream, Op op) {
  if (stream == nullptr) {
    misuse("work on the default stream, which waits for other streams");
    return failed(cudaErrorInvalidResourceHandle);
  }
  const Lock lock(mutex_);
  if (!known(stream)) {
    misuse("work on a stream that was destroyed");
    return failed(cudaErrorInvalidResourceHandle);
  }
  if (op.kind == Op::Kind::kRecord) {
    op.number = ++op.event->recorded;
    op.event->stream = stream;
    op.event->place = stream->issued + 1;
  } else if (op.kind == Op::Kind::kWait) {
    if (op.event->recorded == 0) return sticky_error();  // nothing to wait for
    op.number = op.event->recorded, op.other = op.event->stream, op.place = op.event->place;
  }
  stream->ops.push_back(std::move(op));
  ++stream->issued;
  last_issue_ = Clock::now();
  if (!std::exchange(started_, true)) std::thread(&Scheduler::run, this).detach();
  work_.notify_all();
  return sticky_error();
}

cudaError_t Scheduler::record(CUstream_st* stream, const std::shared_ptr<Event>& event) {
  return put(stream, {Op::Kind::kRecord, nullptr, event});
}
cudaError_t Scheduler::wait_event(CUstream_st* stream, const std::shared_ptr<Event>& event) {
  return put(stream, {Op::Kind::kWait, nullptr, event});
}

void Scheduler::run() {
  Lock lock(mutex_);
  for (;;) {
    if (step(lock)) continue;
    const auto time = pause();
    if (time > kPollInterval) protection().close();
    if (time == Clock::duration::max())
      work_.wait(lock);
    else
      work_.wait_for(lock, time);
  }
}

// How long nothing can change but by a host thread: polled tasks are asked often, what nobody waits for seldom.
Clock::duration Scheduler::pause() const {
  auto time = Clock::duration::max();
  for (const CUstream_st* s : streams_)
    if (!s->ops.empty()) time = std::min<Clock::duration>(time, s->ops[0].started ? kPollInterval : kLookInterval);
  return time;
}

// What has to be done before `upto` ops of the stream are, by the events that they wait for.
void Scheduler::need(CUstream_st* stream, std::uint64_t upto, Needs& needs) const {
  auto& known = needs[stream];
  if (stream->done >= upto || known >= upto) return;
  const std::uint64_t first = std::max(known, stream->done) - stream->done;
  known = upto;
  for (std::uint64_t i = first; i < stream->ops.size() && stream->done + i < upto; ++i) {
    const Op& op = stream->ops[i];
    if (op.kind == Op::Kind::kWait && op.event->completed < op.number) need(op.other, op.place, needs);
  }
}

bool Scheduler::may_start(CUstream_st* stream, const Needs& needed) const {
  if (settings().streams == StreamOrder::kEager || Clock::now() - last_issue_ > settings().patience) return true;
  if (settings().streams == StreamOrder::kRandom) return !needed.empty();
  const auto i = needed.find(stream);
  return i != needed.end() && i->second > stream->done;
}

bool Scheduler::step(Lock& lock) {
  Needs needed;
  for (const auto& [stream, upto] : wanted_) need(stream, upto, needed);
  std::vector<CUstream_st*> started, fresh;
  for (CUstream_st* s : streams_) {
    if (s->ops.empty()) continue;
    const Op& op = s->ops.front();
    if (op.started)
      started.push_back(s);
    else if (op.kind == Op::Kind::kWait && op.event->completed < op.number)
      continue;
    else if (op.kind == Op::Kind::kWait)
      return finish(s);
    else if (may_start(s, needed))
      fresh.push_back(s);
  }
  if (!fresh.empty()) started.push_back(fresh[random_order().next() % fresh.size()]);
  for (CUstream_st* s : started) {
    Op& op = s->ops.front();  // a deque keeps it in place while others are added behind it
    if (op.kind == Op::Kind::kRecord) {
      op.event->completed = op.number;
      op.event->time = Clock::now();
      return finish(s);
    }
    op.started = true;
    lock.unlock();
    protection().open();
    const bool done = sticky_error() != cudaSuccess || op.poll();
    lock.lock();
    if (done) return finish(s);
  }
  return false;
}

bool Scheduler::finish(CUstream_st* stream) {
  stream->ops.pop_front();
  ++stream->done;
  if (const auto i = wanted_.find(stream); i != wanted_.end() && i->second <= stream->done) wanted_.erase(i);
  if (stream->destroyed && stream->ops.empty()) {
    streams_.erase(stream);
    delete stream;
  }
  progress_.notify_all();
  return true;
}

void Scheduler::want(CUstream_st* stream, std::uint64_t upto) {
  auto& most = wanted_[stream];
  most = std::max(most, upto);
  work_.notify_all();
}

void Scheduler::wait_for(Lock& lock, CUstream_st* stream, std::uint64_t upto) {
  while (streams_.contains(stream) && stream->done < upto) {
    want(stream, upto);
    progress_.wait(lock);
  }
}

cudaError_t Scheduler::synchronize(CUstream_st* stream) {
  Lock lock(mutex_);
  if (!known(stream)) return failed(cudaErrorInvalidResourceHandle);
  if (stream->in_progress > 0)
    misuse("a stream is waited for while a NCCL call on it is in progress: poll ncclCommGetAsyncError first");
  wait_for(lock, stream, stream->issued);
  return sticky_error();
}

cudaError_t Scheduler::synchronize(const Event& event) {
  Lock lock(mutex_);
  if (event.completed < event.recorded) wait_for(lock, event.stream, event.place);
  return sticky_error();
}

cudaError_t Scheduler::synchronize_device(int device) {
  Lock lock(mutex_);
  const std::vector<CUstream_st*> all(streams_.begin(), streams_.end());
  for (CUstream_st* s : all)
    if (streams_.contains(s) && (device == kAllDevices || s->device == device)) wait_for(lock, s, s->issued);
  return sticky_error();
}

cudaError_t Scheduler::query(CUstream_st* stream) {
  const Lock lock(mutex_);
  if (!known(stream)) return failed(cudaErrorInvalidResourceHandle);
  if (sticky_error() != cudaSuccess || stream->done == stream->issued) return sticky_error();
  want(stream, stream->issued);  // who polls waits
  return cudaErrorNotReady;
}

cudaError_t Scheduler::query(const Event& event) {
  const Lock lock(mutex_);
  if (sticky_error() != cudaSuccess || event.completed == event.recorded) return sticky_error();
  want(event.stream, event.place);
  return cudaErrorNotReady;
}

bool Scheduler::is_ordered_after(CUstream_st* stream, CUstream_st* other, std::uint64_t place) const {
  const Lock lock(mutex_);
  if (stream == other || !streams_.contains(other) || other->done >= place) return true;
  Needs needs;
  need(stream, stream->issued, needs);
  const auto i = needs.find(other);
  return i != needs.end() && i->second >= place;
}

cudaError_t Scheduler::elapsed(const Event& from, const Event& to, float* ms) {
  const Lock lock(mutex_);
  if (from.recorded == 0 || to.recorded == 0) return failed(cudaErrorInvalidResourceHandle);
  if (from.completed < from.recorded || to.completed < to.recorded) return cudaErrorNotReady;
  *ms = std::chrono::duration<float, std::milli>(to.time - from.time).count();
  return sticky_error();
}

}  // namespace tessera::cuda_emulator
