#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/shape.h"
#include "device/cpu/elementwise_steps.h"
#include "device/elementwise_chain.h"

namespace tessera::device::cpu {

/// A chain of elementwise steps, ready to run over blocks that stay in the first-level cache. The language is that of
/// the kernel `elementwise` in lib/device/README.md.
class ElementwiseProgram {
 public:
  /// Throws Error (internal) for text that is no program, and for an input whose shape does not broadcast to `shape`.
  ElementwiseProgram(const std::string& program, const std::vector<Shape>& inputs, const Shape& shape,
                     std::vector<std::int64_t> results, int threads);

  /// All elements, on all threads. An output may be the memory of a full-size input.
  void run(const void* const* inputs, void* const* outputs);

  /// Elements [begin, end) on the calling thread, which is number `thread`.
  void run_part(const void* const* inputs, void* const* outputs, std::int64_t begin, std::int64_t end, int thread);

  std::size_t result_count() const { return results_; }

 private:
  static constexpr std::int64_t kBlock = 1024;

  using From = ElementwiseChain::From;
  using Spread = ElementwiseChain::Spread;
  struct Input : ElementwiseChain::Input {
    int slot = -1;  // block that a broadcast input is spread into
  };
  struct Step : ElementwiseChain::Step {
    StepFunction run = nullptr;
    int slot = -1;  // block that it writes, -1: straight to its output
  };

  void assign_slots(const std::vector<float>& constants);
  float* slot(int thread, int index) const { return workspace_.get() + (thread * slots_ + index) * kBlock; }
  const float* spread(const Input& input, const float* data, std::int64_t at, std::int64_t n, float* block) const;

  std::vector<Input> inputs_;
  std::vector<Step> steps_;
  std::size_t results_;
  std::int64_t size_ = 0;
  int threads_ = 1;
  int slots_ = 0, first_constant_ = 0;
  std::shared_ptr<float> workspace_;
};

}  // namespace tessera::device::cpu
