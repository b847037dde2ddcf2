#include "device/cpu/elementwise_program.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <iterator>
#include <sstream>

#include "core/error.h"
#include "core/text.h"
#include "device/cpu/context.h"
#include "device/cpu/parallel.h"

namespace tessera::device::cpu {
namespace {

const StepKind& find_kind(const std::string& name) {
  std::vector<std::string> names;
  for (const auto& kind : step_kinds()) {
    if (kind.name == name) return kind;
    names.emplace_back(kind.name);
  }
  fail(ExitCode::kInternal, "internal error: elementwise has no op '{}'{}", name, did_you_mean(name, names));
}

std::vector<std::string> steps_of(const std::string& program) {
  std::vector<std::string> steps;
  std::istringstream stream(program + " ");  // so that nothing after a last bar is a step too
  for (std::string step; std::getline(stream, step, '|');) steps.push_back(step);
  return steps;
}

std::vector<std::string> words_of(const std::string& step) {
  std::istringstream stream(step);
  return {std::istream_iterator<std::string>(stream), {}};
}

bool parse_float(const std::string& word, float& value) {
  double number = 0;
  const auto* end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, number);
  value = static_cast<float>(number);
  return error == std::errc() && stop == end;
}

bool parse_index(const std::string& word, char letter, int& index) {
  const auto* end = word.data() + word.size();
  if (word.size() < 2 || word[0] != letter) return false;
  const auto [stop, error] = std::from_chars(word.data() + 1, end, index);
  return error == std::errc() && stop == end;
}

}  // namespace

ElementwiseProgram::ElementwiseProgram(const std::string& program, const std::vector<Shape>& inputs, const Shape& shape,
                                       std::vector<std::int64_t> results, int threads)
    : results_(std::move(results)), size_(elements(shape)), threads_(threads) {
  for (const auto& s : inputs) {
    const auto rank = s.size(), full = shape.size();
    const Shape tail(std::find_if(s.begin(), s.end(), [](auto n) { return n != 1; }),
                     s.end());  // rows repeat it anyway
    std::size_t same = 0;       // leading dimensions that equal the result's
    while (same < std::min(rank, full) && s[same] == shape[same]) ++same;
    if (s == shape) {
      inputs_.push_back({Spread::kFull});
    } else if (elements(s) == 1) {
      inputs_.push_back({Spread::kScalar});
    } else if (rank <= full && std::equal(tail.rbegin(), tail.rend(), shape.rbegin())) {
      inputs_.push_back({Spread::kRows, elements(s)});
    } else if (rank == full &&
               std::all_of(s.begin() + static_cast<std::ptrdiff_t>(same), s.end(), [](auto n) { return n == 1; })) {
      inputs_.push_back({Spread::kColumns, size_ / std::max<std::int64_t>(elements(s), 1)});
    } else {
      fail(ExitCode::kInternal, "internal error: elementwise '{}': input {} does not broadcast to {}", program,
           to_string(s), to_string(shape));
    }
  }
  parse(program);
  if (results_.empty()) results_.push_back(static_cast<std::int64_t>(steps_.size()) - 1);
  for (std::size_t r = 0; r < results_.size(); ++r) {
    const auto k = results_[r];
    TESSERA_CHECK(k >= 0 && k < static_cast<std::int64_t>(steps_.size()), "elementwise '{}' has no step {}", program,
                  k);
    TESSERA_CHECK(steps_[k].result < 0, "elementwise '{}' gives step {} twice", program, k);
    steps_[k].result = static_cast<int>(r);
  }
  assign_slots();
}

ElementwiseProgram::Operand ElementwiseProgram::parse_operand(const std::string& word, const std::string& step) const {
  Operand o;
  if (parse_index(word, 'i', o.index)) {
    TESSERA_CHECK(o.index < static_cast<int>(inputs_.size()), "elementwise step '{}' reads an input that is not there",
                  step);
  } else {
    o.from = From::kStep;
    TESSERA_CHECK(parse_index(word, 't', o.index) && o.index < static_cast<int>(steps_.size()),
                  "elementwise step '{}': '{}' is neither an input, an earlier step nor a number", step, word);
  }
  return o;
}

void ElementwiseProgram::parse(const std::string& program) {
  for (const auto& text : steps_of(program)) {
    const auto words = words_of(text);
    TESSERA_CHECK(!words.empty(), "elementwise '{}' has an empty step", program);
    const auto& kind = find_kind(words[0]);
    TESSERA_CHECK(static_cast<int>(words.size()) == 1 + kind.tensors + kind.constants,
                  "elementwise step '{}' takes {} tensors and {} constants", text, kind.tensors, kind.constants);
    Step step;
    step.run = kind.run;
    float value = 0;
    for (int k = 0; k < kind.tensors; ++k) {
      auto& operand = k == 0 ? step.x : step.y;
      if (parse_float(words[1 + k], value)) {
        operand = {From::kConstant, static_cast<int>(constants_.size())};
        constants_.push_back(value);
      } else {
        operand = parse_operand(words[1 + k], text);
      }
    }
    if (kind.tensors == 1) step.y = step.x;
    for (int k = 0; k < kind.constants; ++k) {
      TESSERA_CHECK(parse_float(words[1 + kind.tensors + k], value), "elementwise step '{}' wants a number", text);
      (k == 0 ? step.a : step.b) = value;
    }
    TESSERA_CHECK(!words[0].starts_with("leaky_relu") || step.a >= 0,
                  "leaky_relu's gradient reads y: its slope is not negative");
    steps_.push_back(step);
  }
}

// A step's block is free again after its last reader. The last step writes straight to its output; other results are
// copied when the block is done, since an output may be an input's memory.
void ElementwiseProgram::assign_slots() {
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
  const auto first_constant = slots_;
  slots_ += static_cast<int>(constants_.size());
  if (slots_ == 0) return;
  const auto memory = allocate_aligned(static_cast<std::int64_t>(sizeof(float)) * threads_ * slots_ * kBlock);
  workspace_ = {memory, static_cast<float*>(memory.get())};
  for (int t = 0; t < threads_; ++t)
    for (std::size_t c = 0; c < constants_.size(); ++c)
      std::fill_n(slot(t, first_constant + static_cast<int>(c)), kBlock, constants_[c]);
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
  const auto first_constant = slots_ - static_cast<int>(constants_.size());
  for (auto at = begin; at < end; at += kBlock) {
    const auto n = std::min(kBlock, end - at);
    for (std::size_t k = 0; k < inputs_.size(); ++k)
      blocks[k] = spread(inputs_[k], static_cast<const float*>(inputs[k]), at, n,
                         inputs_[k].slot < 0 ? nullptr : slot(thread, inputs_[k].slot));
    const auto place = [&](const Operand& o) -> const float* {
      if (o.from == From::kInput) return blocks[o.index];
      if (o.from == From::kConstant) return slot(thread, first_constant + o.index);
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
