#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "streams.h"

namespace tessera::cuda_emulator {

/// One call that was captured. `lane`: the number of its stream; 0 is the one where the capture began.
struct CapturedOp {
  Op::Kind kind;
  std::size_t lane;
  Task task;           // of a task
  std::size_t record;  // of a wait: which of the calls it waits for
};

struct Recording {
  std::vector<CapturedOp> ops;  // in the order of their calls
  std::size_t lanes = 0;
};

/// Streams whose calls are recorded instead of run. A stream that waits for a captured event joins in.
class Capture {
 public:
  Capture(CUstream_st* origin, cudaStreamCaptureMode mode);

  CUstream_st* origin() const { return streams_[0]; }
  std::thread::id thread() const { return thread_; }
  cudaStreamCaptureMode mode() const { return mode_; }
  bool valid() const { return valid_; }
  void invalidate() { valid_ = false; }

  void add(CUstream_st* stream, const Task& task);
  std::size_t record(CUstream_st* stream);
  void wait(CUstream_st* stream, std::size_t record);

  const std::vector<CUstream_st*>& streams() const { return streams_; }
  const Recording& recording() const { return recording_; }
  /// A stream whose last work the origin doesn't wait for, or -1.
  int unjoined_lane() const;

 private:
  std::size_t lane_of(CUstream_st* stream);

  std::vector<CUstream_st*> streams_;  // by lane
  std::thread::id thread_;
  cudaStreamCaptureMode mode_;
  bool valid_ = true;
  Recording recording_;
};

// What a stream's calls do, captured or not.
cudaError_t enqueue(cudaStream_t stream, const Task& task);
cudaError_t record_event(cudaStream_t stream, const std::shared_ptr<Event>& event);
cudaError_t wait_for_event(cudaStream_t stream, const std::shared_ptr<Event>& event);

std::shared_ptr<Capture> capture_of(cudaStream_t stream);

/// For calls that a capture forbids to its thread (in the mode Global: to every thread): true if there is one; it is
/// invalid from then on.
bool breaks_capture(const char* call);
/// The same for a call on a stream or event that is captured.
bool breaks_capture(const char* call, cudaStream_t stream);
bool breaks_capture(const char* call, const Event& event);

cudaError_t begin_capture(cudaStream_t stream, cudaStreamCaptureMode mode);
/// The recording, unless the error says why there is none. The capture's streams run again.
cudaError_t end_capture(cudaStream_t stream, Recording* recording);

}  // namespace tessera::cuda_emulator
