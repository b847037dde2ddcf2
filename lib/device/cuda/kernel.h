#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "device/cuda/context.h"
#include "device/operands.h"

namespace tessera::device::cuda {

using Factory = std::unique_ptr<Kernel> (*)(const KernelSpec&, Context&, Stream);

/// The arguments of a run, typed: device addresses all.
struct Args {
  const void* const* inputs;
  void* const* outputs;
  std::int64_t micro_batch;
  const StepParams* params;  // its micro_batch is not set
  cudaStream_t stream;

  template <class T = float>
  const T* in(int k) const {
    return static_cast<const T*>(inputs[k]);
  }
  template <class T = float>
  T* out(int k) const {
    return static_cast<T*>(outputs[k]);
  }
};

/// A kernel that is one function of its arguments, which launches.
template <class F>
std::unique_ptr<Kernel> kernel_of(const Context& context, Stream stream, F f) {
  struct FunctionKernel final : Kernel {
    FunctionKernel(const Context& context, Stream stream, F function)
        : params(static_cast<const StepParams*>(context.params.get())),
          cuda_stream(context.stream(stream)),
          f(std::move(function)) {}
    void run(const void* const* inputs, void* const* outputs, const StepParams& host) override {
      f(Args{inputs, outputs, host.micro_batch, params, cuda_stream});
    }
    const StepParams* params;
    cudaStream_t cuda_stream;
    F f;
  };
  return std::make_unique<FunctionKernel>(context, stream, std::move(f));
}

}  // namespace tessera::device::cuda
