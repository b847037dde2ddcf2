#include "device/cpu/elementwise_program.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "device/cpu/context.h"
#include "device/cpu/parallel.h"

namespace tessera::device::cpu {
namespace {

StepFunction function_of(ElementwiseOp op) {
  const auto kinds = step_kinds();
  const auto it = std::find_if(kinds.begin(), kinds.end(), [&](const auto& kind) { return kind.name == name_of(op); });
  TESSERA_CHECK(it != kinds.end(), "the CPU has no elementwise op '{}'", name_of(op));
  return it->run;
}

}  // namespace

ElementwiseProgram::ElementwiseProgram(const std::string& program, const std::vector<Shape>& inputs, const Shape& shape,
                                       std::vector<std::int64_t> results, int threads)
    : threads_(threads) {
  const auto chain = parse_chain(program, inputs, shape, std::move(results));
  size_ = chain.size;
  results_ = chain.results.size();
  for (const auto& input : chain.inputs) inputs_.push_back({input});
  for (const auto& step : chain.steps) steps_.push_back({step, function_of(step.op)});
  assign_slots(chain.constants);
}

// A step's block is free again after its last reader. The last step writes straight to its output; other results are
// copied when the block is done, since an output may be an input's memory.
void ElementwiseProgram::assign_slots(const std::vector<float>& constants) {
  std::vector<int> last_reader(steps_.size(), -1);
  for (std::size_t k = 0; k < steps_.size(); ++k)
    for (const auto& o : {steps_[k].x, steps_[k].y})
      if (o.from == From::kStep) last_reader[o.index] = static_cast<int>(k);
  std::vector<int> free;
  for (std::size_t k = 0; k < steps_.size(); ++k) {
    auto& step = steps_[k];
    const bool last = k + 1 == steps_.size();
    if (!(last && step.result >= 0)) {
      if (free.empty()) free.push_back(slots_++);
      step.slot = free.back();
      free.pop_back();
    }
    for (std::size_t j = 0; j < k; ++j)
      if (last_reader[j] == static_cast<int>(k) && steps_[j].result < 0) free.push_back(steps_[j].slot);
  }
  for (auto& input : inputs_)
    if (input.spread != Spread::kFull) input.slot = slots_++;
  first_constant_ = slots_;
  slots_ += static_cast<int>(constants.size());
  if (slots_ == 0) return;
  const auto memory = allocate_aligned(static_cast<std::int64_t>(sizeof(float)) * threads_ * slots_ * kBlock);
  workspace_ = {memory, static_cast<float*>(memory.get())};
  for (int t = 0; t < threads_; ++t)
    for (std::size_t c = 0; c < constants.size(); ++c)
      std::fill_n(slot(t, first_constant_ + static_cast<int>(c)), kBlock, constants[c]);
}

/// The input's values for the elements at .. at + n: where they lie as they are needed, else spread into the block.
const float* ElementwiseProgram::spread(const Input& input, const float* data, std::int64_t at, std::int64_t n,
                                        float* block) const {
  if (input.spread == Spread::kFull) return data + at;
  if (input.spread == Spread::kScalar) {
    std::fill_n(block, n, data[0]);
    return block;
  }
  if (input.spread == Spread::kRows) {
    auto from = at % input.size;
    if (from + n <= input.size) return data + from;
    for (std::int64_t done = 0; done < n; from = 0) {
      const auto part = std::min(n - done, input.size - from);
      std::memcpy(block + done, data + from, static_cast<std::size_t>(part) * sizeof(float));
      done += part;
    }
    return block;
  }
  for (std::int64_t done = 0; done < n;) {
    const auto column = (at + done) / input.size;
    const auto part = std::min(n - done, (column + 1) * input.size - (at + done));
    std::fill_n(block + done, part, data[column]);
    done += part;
  }
  return block;
}

void ElementwiseProgram::run_part(const void* const* inputs, void* const* outputs, std::int64_t begin, std::int64_t end,
                                  int thread) {
  constexpr int kMostInputs = 16;
  const float* blocks[kMostInputs];
  TESSERA_CHECK(inputs_.size() <= kMostInputs, "elementwise with {} inputs", inputs_.size());
  for (auto at = begin; at < end; at += kBlock) {
    const auto n = std::min(kBlock, end - at);
    for (std::size_t k = 0; k < inputs_.size(); ++k)
      blocks[k] = spread(inputs_[k], static_cast<const float*>(inputs[k]), at, n,
                         inputs_[k].slot < 0 ? nullptr : slot(thread, inputs_[k].slot));
    const auto place = [&](const ElementwiseChain::Operand& o) -> const float* {
      if (o.from == From::kInput) return blocks[o.index];
      if (o.from == From::kConstant) return slot(thread, first_constant_ + o.index);
      return slot(thread, steps_[o.index].slot);
    };
    for (const auto& s : steps_) {
      float* out = s.slot < 0 ? static_cast<float*>(outputs[s.result]) + at : slot(thread, s.slot);
      s.run({place(s.x), place(s.y), out, n, s.a, s.b});
    }
    for (const auto& s : steps_)
      if (s.result >= 0 && s.slot >= 0)
        std::memcpy(static_cast<float*>(outputs[s.result]) + at, slot(thread, s.slot),
                    static_cast<std::size_t>(n) * sizeof(float));
  }
}

void ElementwiseProgram::run(const void* const* inputs, void* const* outputs) {
  const auto grain = std::max<std::int64_t>(1, kGrain / static_cast<std::int64_t>(steps_.size()));
  parallel_parts(threads_, size_, grain, [&](std::int64_t part, std::int64_t begin, std::int64_t end) {
    run_part(inputs, outputs, begin, end, static_cast<int>(part));
  });
}

}  // namespace tessera::device::cpu
