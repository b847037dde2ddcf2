#pragma once

#include <cstdint>

#include "device/cuda/index.h"
#include "device/elementwise_chain.h"

namespace tessera::device::cuda {

inline constexpr int kMostChainSteps = 48, kMostChainInputs = 16, kMostChainConstants = 16, kMostChainResults = 8;

/// A chain as the kernel reads it: in the launch's parameters, 4 KiB at most.
struct ChainProgram {
  /// kLast: the step before; kSlot: what the thread has kept.
  enum class From : std::uint8_t { kInput, kLast, kSlot, kConstant };
  struct Operand {
    From from;
    std::uint8_t index;
  };
  struct Step {
    ElementwiseOp op;
    Operand x, y;
    bool same;         // y is x
    std::int8_t slot;  // where its value is kept, or -1
    float a, b;
  };
  struct Input {
    ElementwiseChain::Spread spread;
    std::int8_t slot;  // full ones that are read twice are loaded once, or -1
    std::int64_t size;
  };

  Step steps[kMostChainSteps];
  Input inputs[kMostChainInputs];
  float constants[kMostChainConstants];
  std::int8_t result_slots[kMostChainResults];  // of each output; -1: the last step's value
  int step_count, input_count, result_count, slot_count;
  std::int64_t size;  // elements
};

/// The element of an input that belongs to the chain's element i. Index as in index.h.
template <typename Index>
constexpr std::int64_t element_of(const ChainProgram::Input& input, std::int64_t i) {
  using Spread = ElementwiseChain::Spread;
  if (input.spread == Spread::kFull) return i;
  if (input.spread == Spread::kScalar) return 0;
  const auto cell = cell_of<Index>(i, input.size);
  return input.spread == Spread::kRows ? cell.column : cell.row;
}

/// Full inputs that are read twice are loaded once, and a value that a later step than the next reads is kept in a slot
/// until then. Throws Error (internal) where the chain has more steps, inputs or outputs than a ChainProgram holds.
ChainProgram compile(const ElementwiseChain& chain);

}  // namespace tessera::device::cuda
