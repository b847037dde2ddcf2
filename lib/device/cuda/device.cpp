#include "device/cuda/device.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <nvtx3/nvToolsExt.h>

#include <fmt/format.h>

#include "device/cuda/check.h"
#include "device/cuda/context.h"
#include "device/cuda/kernels.h"
#include "device/cuda/matmul.h"

namespace tessera::device::cuda {
namespace {

class StreamEvent final : public Event {
 public:
  explicit StreamEvent(const Context& context) : context_(context), event_(make_event(true)) {}

  void record(Stream stream) override {
    check(cudaEventRecord(event_.get(), context_.stream(stream)), "cudaEventRecord");
  }
  void wait(Stream stream) override {
    check(cudaStreamWaitEvent(context_.stream(stream), event_.get(), 0), "cudaStreamWaitEvent");
  }
  bool done() override {
    const auto error = cudaEventQuery(event_.get());
    if (error == cudaErrorNotReady) return false;
    check(error, "cudaEventQuery");
    return true;
  }
  double seconds_since(const Event& start) const override {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, dynamic_cast<const StreamEvent&>(start).event_.get(), event_.get()),
          "cudaEventElapsedTime");
    return milliseconds * 1e-3;
  }

 private:
  const Context& context_;
  CudaEvent event_;
};

class Graph final : public Recording {
 public:
  Graph(CudaGraphExec graph, cudaStream_t stream) : graph_(std::move(graph)), stream_(stream) {}

  void replay() override { check(cudaGraphLaunch(graph_.get(), stream_), "cudaGraphLaunch"); }

 private:
  CudaGraphExec graph_;
  cudaStream_t stream_;
};

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(const CudaOptions& options) : options_(options) {
    check(cudaSetDevice(options.index), "cudaSetDevice");
    context_.streams = {make_stream(false), make_stream(true)};
    context_.params = device_memory(sizeof(StepParams));
    context_.checks = Checks(compute());
    context_.tensor_float_32 = options.tensor_float_32;
    context_.blas = make_blas();
    context_.tuning = Tuning(machine_line());
    if (!options.matmul_cache.empty()) context_.tuning.load(options.matmul_cache);
    bounce_ = host_memory(kBounceBytes);
    params_ring_ = host_memory(kRing * sizeof(StepParams));
    for (auto& event : params_read_) event = cuda::make_event(false);
  }

  ~CudaDevice() override { (void)cudaDeviceSynchronize(); }

  std::string name() const override { return fmt::format("cuda:{}", options_.index); }
  DeviceKind kind() const override { return DeviceKind::kCuda; }

  std::unique_ptr<Kernel> make_kernel(const KernelSpec& spec, Stream stream) override {
    return find_factory(spec)(spec, context_, stream);
  }

  std::shared_ptr<void> allocate(std::int64_t bytes) override {
    std::shared_ptr<void> memory = device_memory(bytes);
    if (bytes > 0) {
      check(cudaMemsetAsync(memory.get(), 0, static_cast<std::size_t>(bytes), compute()), "cudaMemsetAsync");
      check(cudaStreamSynchronize(compute()), "cudaStreamSynchronize");
    }
    return memory;
  }
  std::shared_ptr<void> allocate_host(std::int64_t bytes) override {
    std::shared_ptr<void> memory = host_memory(bytes);
    if (bytes > 0) std::memset(memory.get(), 0, static_cast<std::size_t>(bytes));
    return memory;
  }

  void copy_in(void* device, const void* host, std::int64_t bytes) override {
    synchronize_streams();
    for (std::int64_t at = 0; at < bytes; at += kBounceBytes) {
      const auto part = static_cast<std::size_t>(std::min(kBounceBytes, bytes - at));
      std::memcpy(bounce_.get(), static_cast<const std::byte*>(host) + at, part);
      check(
          cudaMemcpyAsync(static_cast<std::byte*>(device) + at, bounce_.get(), part, cudaMemcpyHostToDevice, compute()),
          "cudaMemcpyAsync");
      check(cudaStreamSynchronize(compute()), "cudaStreamSynchronize");
    }
  }
  void copy_out(void* host, const void* device, std::int64_t bytes) override {
    synchronize_streams();
    for (std::int64_t at = 0; at < bytes; at += kBounceBytes) {
      const auto part = static_cast<std::size_t>(std::min(kBounceBytes, bytes - at));
      check(cudaMemcpyAsync(bounce_.get(), static_cast<const std::byte*>(device) + at, part, cudaMemcpyDeviceToHost,
                            compute()),
            "cudaMemcpyAsync");
      check(cudaStreamSynchronize(compute()), "cudaStreamSynchronize");
      std::memcpy(static_cast<std::byte*>(host) + at, bounce_.get(), part);
    }
  }
  void upload(void* device, const void* host, std::int64_t bytes) override {
    if (bytes == 0) return;
    check(cudaMemcpyAsync(device, host, static_cast<std::size_t>(bytes), cudaMemcpyHostToDevice, compute()),
          "cudaMemcpyAsync");
  }

  void begin_step(const StepParams& params) override {
    const auto slot = static_cast<std::size_t>(steps_++ % kRing);
    check(cudaEventSynchronize(params_read_[slot].get()), "cudaEventSynchronize");  // at once, but for a host far ahead
    auto* host = static_cast<StepParams*>(params_ring_.get()) + slot;
    *host = params;
    check(cudaMemcpyAsync(context_.params.get(), host, sizeof *host, cudaMemcpyHostToDevice, compute()),
          "cudaMemcpyAsync");
    check(cudaEventRecord(params_read_[slot].get(), compute()), "cudaEventRecord");
  }

  bool idle() override {
    for (const auto& stream : context_.streams) {
      const auto error = cudaStreamQuery(stream.get());
      if (error == cudaErrorNotReady) return false;
      check(error, "cudaStreamQuery");
    }
    return true;
  }
  void synchronize() override {
    context_.checks.fetch(compute());
    synchronize_streams();
    context_.checks.look();
  }

  std::unique_ptr<Event> make_event() override { return std::make_unique<StreamEvent>(context_); }
  // The capture is this thread's alone, so that a watching thread may query events.
  std::unique_ptr<Recording> record(const std::function<void()>& queue) override {
    check(cudaStreamBeginCapture(compute(), cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    try {
      queue();
    } catch (...) {
      (void)end_capture();
      throw;
    }
    const auto captured = end_capture();
    check(captured.error, "cudaStreamEndCapture");
    cudaGraphExec_t graph = nullptr;
    check(cudaGraphInstantiateWithFlags(&graph, captured.graph.get(), cudaGraphInstantiateFlagUseNodePriority),
          "cudaGraphInstantiate");
    auto recording = std::make_unique<Graph>(CudaGraphExec(graph), compute());
    check(cudaGraphUpload(graph, compute()), "cudaGraphUpload");
    return recording;
  }
  void begin_range(const char* name) override { nvtxRangePushA(name); }
  void end_range() override { nvtxRangePop(); }
  void* native_stream(Stream stream) override { return context_.stream(stream); }

  std::string tune(const std::vector<KernelSpec>& kernels) override {
    bool timed = false;
    for (const auto& spec : kernels)
      if (spec.name == "matmul") timed |= choose_matmul(spec, context_);
    if (timed && !options_.matmul_cache.empty()) context_.tuning.save(options_.matmul_cache);
    return context_.tuning.text();
  }
  void set_tuning(const std::string& text) override { context_.tuning.parse(text); }

  void set_scratch(void* memory, std::int64_t bytes) override { context_.scratch = Scratch(memory, bytes); }

 private:
  static constexpr std::int64_t kBounceBytes = 4 << 20;
  static constexpr std::int64_t kRing = 4;

  struct Captured {
    cudaError_t error;
    CudaGraph graph;
  };
  Captured end_capture() {
    cudaGraph_t graph = nullptr;
    const auto error = cudaStreamEndCapture(compute(), &graph);
    return {error, CudaGraph(graph)};
  }

  cudaStream_t compute() const { return context_.stream(Stream::kCompute); }

  void synchronize_streams() {
    for (const auto& stream : context_.streams) check(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize");
  }

  std::string machine_line() const {
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, options_.index), "cudaGetDeviceProperties");
    const auto l = libraries();
    return fmt::format("tessera cublaslt choices 1; {}; {} multiprocessors; cuBLASLt {}; driver {}", properties.name,
                       properties.multiProcessorCount, l.cublaslt, cuda_version(l.driver));
  }

  CudaOptions options_;
  Context context_;
  HostMemory bounce_;  // through which pageable memory is copied
  HostMemory params_ring_;
  std::array<CudaEvent, kRing> params_read_;
  std::int64_t steps_ = 0;
};

}  // namespace

std::unique_ptr<Device> make_device(const CudaOptions& options) { return std::make_unique<CudaDevice>(options); }

}  // namespace tessera::device::cuda
