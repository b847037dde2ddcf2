#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/shape.h"
#include "device/cpu/elementwise_steps.h"

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

  std::size_t result_count() const { return results_.size(); }

 private:
  static constexpr std::int64_t kBlock = 1024;

  enum class Spread : std::uint8_t { kFull, kScalar, kRows, kColumns };
  struct Input {
    Spread spread = Spread::kFull;
    std::int64_t size = 1;  // kRows: elements until it repeats; kColumns: elements that share a value
    int slot = -1;          // block that a broadcast input is spread into
  };
  enum class From : std::uint8_t { kInput, kStep, kConstant };
  struct Operand {
    From from = From::kInput;
    int index = 0;
  };
  struct Step {
    StepFunction run = nullptr;
    Operand x, y;
    float a = 0, b = 0;
    int slot = -1;  // block that it writes, -1: straight to output `result`
    int result = -1;
  };

  void parse(const std::string& program);
  Operand parse_operand(const std::string& word, const std::string& step) const;
  void assign_slots();
  float* slot(int thread, int index) const { return workspace_.get() + (thread * slots_ + index) * kBlock; }
  const float* spread(const Input& input, const float* data, std::int64_t at, std::int64_t n, float* block) const;

  std::vector<Input> inputs_;
  std::vector<Step> steps_;
  std::vector<float> constants_;
  std::vector<std::int64_t> results_;
  std::int64_t size_ = 0;
  int threads_ = 1;
  int slots_ = 0;
  std::shared_ptr<float> workspace_;
};

}  // namespace tessera::device::cpu
