#include "device/cuda/chain_program.h"

#include <algorithm>
#include <vector>

#include "core/error.h"

namespace tessera::device::cuda {
namespace {

/// Counts the free slots; a slot is free again after the last step that reads it.
class Slots {
 public:
  int take() {
    if (free_.empty()) free_.push_back(count_++);
    const int slot = free_.back();
    free_.pop_back();
    return slot;
  }
  void give_back(int slot) { free_.push_back(slot); }
  int count() const { return count_; }

 private:
  std::vector<int> free_;
  int count_ = 0;
};

/// The step that reads a step's or an input's value last, and how many operands read it.
struct Uses {
  int last = -1, count = 0;

  void add(int step) {
    last = step;
    ++count;
  }
};

/// An op with one tensor reads it once, though y names it too.
std::vector<ElementwiseChain::Operand> operands_of(const ElementwiseChain::Step& step) {
  if (step.x == step.y) return {step.x};
  return {step.x, step.y};
}

}  // namespace

ChainProgram compile(const ElementwiseChain& chain) {
  ChainProgram program{};
  const auto steps = static_cast<int>(chain.steps.size());
  TESSERA_CHECK(
      steps <= kMostChainSteps && std::ssize(chain.inputs) <= kMostChainInputs &&
          std::ssize(chain.constants) <= kMostChainConstants && std::ssize(chain.results) <= kMostChainResults,
      "elementwise with {} steps, {} inputs and {} outputs", steps, chain.inputs.size(), chain.results.size());
  using ChainFrom = ElementwiseChain::From;
  std::vector<Uses> of_step(chain.steps.size()), of_input(chain.inputs.size());
  for (int s = 0; s < steps; ++s)
    for (const auto& o : operands_of(chain.steps[s])) {
      if (o.from == ChainFrom::kStep) of_step[o.index].add(s);
      if (o.from == ChainFrom::kInput) of_input[o.index].add(s);
    }

  Slots slots;
  program.step_count = steps;
  program.input_count = static_cast<int>(chain.inputs.size());
  program.result_count = static_cast<int>(chain.results.size());
  program.size = chain.size;
  std::copy(chain.constants.begin(), chain.constants.end(), program.constants);
  for (std::size_t k = 0; k < chain.inputs.size(); ++k) {
    const bool twice = chain.inputs[k].spread == ElementwiseChain::Spread::kFull && of_input[k].count > 1;
    program.inputs[k] = {chain.inputs[k].spread, static_cast<std::int8_t>(twice ? slots.take() : -1),
                         chain.inputs[k].size};
  }
  const auto place = [&](const ElementwiseChain::Operand& o, int step) -> ChainProgram::Operand {
    using From = ChainProgram::From;
    if (o.from == ChainFrom::kConstant) return {From::kConstant, static_cast<std::uint8_t>(o.index)};
    if (o.from == ChainFrom::kInput) {
      const auto slot = program.inputs[o.index].slot;
      return slot < 0 ? ChainProgram::Operand{From::kInput, static_cast<std::uint8_t>(o.index)}
                      : ChainProgram::Operand{From::kSlot, static_cast<std::uint8_t>(slot)};
    }
    if (o.index == step - 1) return {From::kLast, 0};
    return {From::kSlot, static_cast<std::uint8_t>(program.steps[o.index].slot)};
  };
  for (int s = 0; s < steps; ++s) {
    const auto& step = chain.steps[s];
    auto& made = program.steps[s];
    made = {step.op, place(step.x, s), place(step.y, s), step.x == step.y, -1, step.a, step.b};
    for (int t = 0; t < s; ++t)
      if (of_step[t].last == s && chain.steps[t].result < 0 && program.steps[t].slot >= 0)
        slots.give_back(program.steps[t].slot);
    for (std::size_t k = 0; k < chain.inputs.size(); ++k)
      if (of_input[k].last == s && program.inputs[k].slot >= 0) slots.give_back(program.inputs[k].slot);
    const bool read_later = of_step[s].last > s + 1 || (step.result >= 0 && s + 1 < steps);
    if (read_later) made.slot = static_cast<std::int8_t>(slots.take());
  }
  for (std::size_t r = 0; r < chain.results.size(); ++r) program.result_slots[r] = program.steps[chain.results[r]].slot;
  program.slot_count = slots.count();
  return program;
}

}  // namespace tessera::device::cuda
