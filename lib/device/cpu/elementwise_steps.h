#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace tessera::device::cpu {

/// One step of a chain over a block: out[i] = op(x[i], y[i], a, b). Of ops with one tensor y is not read. out may be x
/// or y.
struct StepArgs {
  const float* x;
  const float* y;
  float* out;
  std::int64_t n;
  float a, b;
};
using StepFunction = void (*)(const StepArgs&);

struct StepKind {
  std::string_view name;
  StepFunction run;
};

/// All ops of `elementwise`, compiled for the best instruction set that is allowed.
std::span<const StepKind> step_kinds();

}  // namespace tessera::device::cpu
