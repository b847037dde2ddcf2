// Graphs of captured work, run again by the streams that run everything else.
#include "capture.h"
#include "device.h"
#include "fault.h"
#include "thread_state.h"

struct CUgraph_st {
  tessera::cuda_emulator::Recording recording;
};

struct CUgraphExec_st {
  tessera::cuda_emulator::Recording recording;
  std::vector<CUstream_st*> lanes;  // of its own, from 1
  std::shared_ptr<tessera::cuda_emulator::Event> done = std::make_shared<tessera::cuda_emulator::Event>();
};

using namespace tessera::cuda_emulator;

namespace {

cudaError_t instantiate(cudaGraphExec_t* exec, cudaGraph_t graph) {
  if (const cudaError_t error = device_error(); error != cudaSuccess) return error;
  if (breaks_capture("cudaGraphInstantiate")) return failed(cudaErrorStreamCaptureUnsupported);
  *exec = new CUgraphExec_st{graph->recording, {}};
  for (std::size_t lane = 1; lane < graph->recording.lanes; ++lane)
    (*exec)->lanes.push_back(scheduler().create(this_thread.device, 0));
  return cudaSuccess;
}

// Launches of one graph run one after the other, on whichever streams.
cudaError_t launch(CUgraphExec_st& exec, cudaStream_t stream) {
  std::vector<std::shared_ptr<Event>> events(exec.recording.ops.size());
  cudaError_t error = scheduler().wait_event(stream, exec.done);
  for (std::size_t i = 0; i < events.size() && error == cudaSuccess; ++i) {
    const CapturedOp& op = exec.recording.ops[i];
    CUstream_st* lane = op.lane == 0 ? stream : exec.lanes[op.lane - 1];
    switch (op.kind) {
      case Op::Kind::kTask:
        error = scheduler().put(lane, {Op::Kind::kTask, op.task.make(), nullptr});
        break;
      case Op::Kind::kRecord:
        events[i] = std::make_shared<Event>();
        error = scheduler().record(lane, events[i]);
        break;
      case Op::Kind::kWait:
        error = scheduler().wait_event(lane, events[op.record]);
        break;
    }
  }
  return error == cudaSuccess ? scheduler().record(stream, exec.done) : error;
}

}  // namespace

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  if (const cudaError_t error = device_error(); error != cudaSuccess) return error;
  return begin_capture(stream, mode);
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = nullptr;
  Recording recording;
  const cudaError_t error = end_capture(stream, &recording);
  if (error == cudaSuccess) *graph = new CUgraph_st{std::move(recording)};
  return error;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  const auto capture = capture_of(stream);
  *status = capture == nullptr ? cudaStreamCaptureStatusNone
            : capture->valid() ? cudaStreamCaptureStatusActive
                               : cudaStreamCaptureStatusInvalidated;
  return cudaSuccess;
}

/// Only the number of nodes: copies, sets, kernels, products and collectives.
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  if (nodes != nullptr) return failed(cudaErrorNotSupported);
  *count = 0;
  for (const CapturedOp& op : graph->recording.ops) *count += op.kind == Op::Kind::kTask;
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  return instantiate(exec, graph);
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  return instantiate(exec, graph);
}

cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t stream) {
  if (breaks_capture("cudaGraphUpload", stream)) return failed(cudaErrorStreamCaptureUnsupported);
  return device_error();
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  if (const cudaError_t error = device_error(); error != cudaSuccess) return error;
  if (breaks_capture("cudaGraphLaunch", stream)) return failed(cudaErrorStreamCaptureUnsupported);
  return launch(*exec, stream);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  for (CUstream_st* lane : exec->lanes) scheduler().destroy(lane);
  delete exec;
  return cudaSuccess;
}

}  // extern "C"
