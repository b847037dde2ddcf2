#include "capture.h"

#include <algorithm>
#include <set>

#include "fault.h"

namespace tessera::cuda_emulator {
namespace {

struct Captures {
  std::mutex mutex;  // of all captures, and of which stream has one
  std::set<std::shared_ptr<Capture>> active;
};

Captures& captures() {
  static Captures& c = *new Captures;
  return c;
}

cudaError_t spoil(Capture& capture, cudaError_t error, const std::string& what) {
  capture.invalidate();
  misuse(what);
  return failed(error);
}

bool forbids(const Capture& c) {
  return c.mode() == cudaStreamCaptureModeGlobal ||
         (c.mode() == cudaStreamCaptureModeThreadLocal && c.thread() == std::this_thread::get_id());
}

}  // namespace

Capture::Capture(CUstream_st* origin, cudaStreamCaptureMode mode)
    : streams_{origin}, thread_(std::this_thread::get_id()), mode_(mode) {
  recording_.lanes = 1;
}

std::size_t Capture::lane_of(CUstream_st* stream) {
  const auto i = std::find(streams_.begin(), streams_.end(), stream);
  const auto lane = std::size_t(i - streams_.begin());
  if (i == streams_.end()) streams_.push_back(stream);
  recording_.lanes = streams_.size();
  return lane;
}

void Capture::add(CUstream_st* stream, const Task& task) {
  recording_.ops.push_back({Op::Kind::kTask, lane_of(stream), task, 0});
}
std::size_t Capture::record(CUstream_st* stream) {
  recording_.ops.push_back({Op::Kind::kRecord, lane_of(stream), {}, 0});
  return recording_.ops.size() - 1;
}
void Capture::wait(CUstream_st* stream, std::size_t record) {
  recording_.ops.push_back({Op::Kind::kWait, lane_of(stream), {}, record});
}

// Backwards: what the end of the origin depends on.
int Capture::unjoined_lane() const {
  const auto& ops = recording_.ops;
  std::vector<bool> joined(recording_.lanes, false), waited_for(ops.size(), false);
  joined[0] = true;
  for (std::size_t i = ops.size(); i-- > 0;) {
    const CapturedOp& op = ops[i];
    if (op.kind == Op::Kind::kRecord && waited_for[i]) joined[op.lane] = true;
    if (op.kind == Op::Kind::kTask && !joined[op.lane]) return int(op.lane);
    if (op.kind == Op::Kind::kWait && joined[op.lane]) waited_for[op.record] = true;
  }
  return -1;
}

std::shared_ptr<Capture> capture_of(cudaStream_t stream) {
  if (stream == nullptr || !scheduler().knows(stream)) return nullptr;
  const std::lock_guard lock(captures().mutex);
  return stream->capture;
}

cudaError_t enqueue(cudaStream_t stream, const Task& task) {
  if (stream == nullptr && breaks_capture("work on the default stream")) return failed(cudaErrorStreamCaptureImplicit);
  if (const auto capture = capture_of(stream)) {
    const std::lock_guard lock(captures().mutex);
    capture->add(stream, task);
    return sticky_error();
  }
  return scheduler().put(stream, {Op::Kind::kTask, task.make(), nullptr});
}

cudaError_t record_event(cudaStream_t stream, const std::shared_ptr<Event>& event) {
  if (stream != nullptr && scheduler().knows(stream) && stream->in_progress > 0)
    misuse("an event is recorded while a NCCL call on its stream is in progress: poll ncclCommGetAsyncError first");
  const auto capture = capture_of(stream);
  const std::lock_guard lock(captures().mutex);
  event->captured = capture != nullptr;
  event->capture = capture;
  if (capture == nullptr) return scheduler().record(stream, event);
  event->captured_record = capture->record(stream);
  return sticky_error();
}

cudaError_t wait_for_event(cudaStream_t stream, const std::shared_ptr<Event>& event) {
  auto capture = capture_of(stream);
  const std::lock_guard lock(captures().mutex);
  const auto other = event->capture.lock();
  if (capture == nullptr && !event->captured) return scheduler().wait_event(stream, event);
  if (event->captured && other == nullptr) {
    misuse("a stream waits for an event of a capture that has ended");
    return failed(cudaErrorInvalidValue);
  }
  if (capture == nullptr) {
    stream->capture = capture = other;  // joins in
  } else if (!event->captured && event->recorded == 0) {
    return sticky_error();
  } else if (!event->captured) {
    return spoil(*capture, cudaErrorStreamCaptureIsolation, "a captured stream waits for an event outside the capture");
  } else if (capture != other) {
    return spoil(*capture, cudaErrorStreamCaptureMerge, "a captured stream waits for an event of another capture");
  }
  capture->wait(stream, event->captured_record);
  return sticky_error();
}

bool breaks_capture(const char* call) {
  const std::lock_guard lock(captures().mutex);
  bool found = false;
  for (const auto& c : captures().active)
    if (forbids(*c)) found = true, c->invalidate();
  if (found) misuse(std::string(call) + " while a stream is captured: the capture is invalid");
  return found;
}

bool breaks_capture(const char* call, cudaStream_t stream) {
  const auto capture = capture_of(stream);
  if (capture == nullptr) return false;
  const std::lock_guard lock(captures().mutex);
  spoil(*capture, cudaErrorStreamCaptureUnsupported, std::string(call) + " on a stream that is captured");
  return true;
}

bool breaks_capture(const char* call, const Event& event) {
  const std::lock_guard lock(captures().mutex);
  if (!event.captured) return false;
  if (const auto capture = event.capture.lock()) capture->invalidate();
  misuse(std::string(call) + " on an event that is captured");
  return true;
}

cudaError_t begin_capture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  if (stream == nullptr) {
    misuse("the default stream can't be captured");
    return failed(cudaErrorStreamCaptureUnsupported);
  }
  if (!scheduler().knows(stream)) return failed(cudaErrorInvalidResourceHandle);
  const std::lock_guard lock(captures().mutex);
  if (stream->capture != nullptr) return failed(cudaErrorIllegalState);
  stream->capture = std::make_shared<Capture>(stream, mode);
  captures().active.insert(stream->capture);
  return sticky_error();
}

cudaError_t end_capture(cudaStream_t stream, Recording* recording) {
  const auto capture = capture_of(stream);
  if (capture == nullptr) return failed(cudaErrorIllegalState);
  const std::lock_guard lock(captures().mutex);
  if (capture->origin() != stream)
    return spoil(*capture, cudaErrorStreamCaptureUnmatched, "a capture is ended on another stream than it began on");
  if (capture->mode() != cudaStreamCaptureModeRelaxed && capture->thread() != std::this_thread::get_id())
    return spoil(*capture, cudaErrorStreamCaptureWrongThread, "a capture is ended by another thread than began it");
  for (CUstream_st* s : capture->streams()) s->capture = nullptr;
  captures().active.erase(capture);
  if (!capture->valid()) return failed(cudaErrorStreamCaptureInvalidated);
  if (const int lane = capture->unjoined_lane(); lane > 0) {
    misuse("a capture ends before stream " + std::to_string(lane) + " of it has joined its first one");
    return failed(cudaErrorStreamCaptureUnjoined);
  }
  *recording = capture->recording();
  return sticky_error();
}

}  // namespace tessera::cuda_emulator
