// The runtime's calls on streams and events.
#include "capture.h"
#include "device.h"
#include "fault.h"
#include "streams.h"
#include "thread_state.h"

using namespace tessera::cuda_emulator;

extern "C" {

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  if (const cudaError_t error = device_error(); error != cudaSuccess) return error;
  if ((flags & cudaStreamNonBlocking) == 0) {
    misuse("a stream without cudaStreamNonBlocking waits for the default stream");
    return failed(cudaErrorInvalidValue);
  }
  *stream = scheduler().create(this_thread.device, priority);
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  *priority = stream->priority;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  scheduler().destroy(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (breaks_capture("cudaStreamSynchronize", stream)) return cudaErrorStreamCaptureUnsupported;
  return scheduler().synchronize(stream);
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  if (breaks_capture("cudaStreamQuery", stream)) return cudaErrorStreamCaptureUnsupported;
  return scheduler().query(stream);
}
cudaError_t cudaDeviceSynchronize() {
  if (breaks_capture("cudaDeviceSynchronize")) return failed(cudaErrorStreamCaptureUnsupported);
  return scheduler().synchronize_device(this_thread.device);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  if (const cudaError_t error = device_error(); error != cudaSuccess) return error;
  *event = new CUevent_st{std::make_shared<Event>(), (flags & cudaEventDisableTiming) == 0};
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) { return record_event(stream, event->event); }
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  return wait_for_event(stream, event->event);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (breaks_capture("cudaEventSynchronize", *event->event)) return failed(cudaErrorCapturedEvent);
  return scheduler().synchronize(*event->event);
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (breaks_capture("cudaEventQuery", *event->event)) return failed(cudaErrorCapturedEvent);
  if (breaks_capture("cudaEventQuery")) return failed(cudaErrorStreamCaptureUnsupported);
  return scheduler().query(*event->event);
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t from, cudaEvent_t to) {
  if (!from->timed || !to->timed) return failed(cudaErrorInvalidResourceHandle);
  for (const auto* event : {from, to})
    if (breaks_capture("cudaEventElapsedTime", *event->event)) return failed(cudaErrorCapturedEvent);
  return scheduler().elapsed(*from->event, *to->event, ms);
}

}  // extern "C"
