#pragma once

#include <memory>
#include <utility>

#include "device/operands.h"

namespace tessera::device::cpu {

struct Context;  // context.h

using Factory = std::unique_ptr<Kernel> (*)(const KernelSpec&, Context&);

/// The arguments of a run, typed.
struct Args {
  const void* const* inputs;
  void* const* outputs;
  const StepParams& params;

  template <class T = float>
  const T* in(int k) const {
    return static_cast<const T*>(inputs[k]);
  }
  template <class T = float>
  T* out(int k) const {
    return static_cast<T*>(outputs[k]);
  }
};

/// A kernel that is one function of its arguments.
template <class F>
std::unique_ptr<Kernel> kernel_of(F f) {
  struct FunctionKernel final : Kernel {
    explicit FunctionKernel(F function) : f(std::move(function)) {}
    void run(const void* const* inputs, void* const* outputs, const StepParams& params) override {
      f(Args{inputs, outputs, params});
    }
    F f;
  };
  return std::make_unique<FunctionKernel>(std::move(f));
}

}  // namespace tessera::device::cpu
