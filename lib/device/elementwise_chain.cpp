#include "device/elementwise_chain.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <sstream>

#include "core/error.h"
#include "core/text.h"

namespace tessera::device {
namespace {

struct OpFacts {
  std::string_view name;
  int tensors;
  int constants = 0;  // after the tensors
};

// In the order of ElementwiseOp.
constexpr std::array<OpFacts, kElementwiseOps> kOps{{
    {"add", 2},
    {"sub", 2},
    {"mul", 2},
    {"div", 2},
    {"max", 2},
    {"min", 2},
    {"affine", 1, 2},
    {"clip", 1, 2},
    {"neg", 1},
    {"square", 1},
    {"abs", 1},
    {"sqrt", 1},
    {"linear", 1},
    {"relu", 1},
    {"relu_grad", 2},
    {"relu6", 1},
    {"relu6_grad", 2},
    {"leaky_relu", 1, 1},
    {"leaky_relu_grad", 2, 1},
    {"elu", 1, 1},
    {"elu_grad", 2, 1},
    {"selu", 1},
    {"selu_grad", 2},
    {"celu", 1, 1},
    {"celu_grad", 2, 1},
    {"gelu", 1},
    {"gelu_grad", 2},
    {"gelu_tanh", 1},
    {"gelu_tanh_grad", 2},
    {"silu", 1},
    {"silu_grad", 2},
    {"sigmoid", 1},
    {"sigmoid_grad", 2},
    {"hard_sigmoid", 1},
    {"hard_sigmoid_grad", 2},
    {"hard_silu", 1},
    {"hard_silu_grad", 2},
    {"tanh", 1},
    {"tanh_grad", 2},
    {"softplus", 1},
    {"softplus_grad", 2},
    {"softsign", 1},
    {"softsign_grad", 2},
    {"mish", 1},
    {"mish_grad", 2},
    {"exponential", 1},
    {"exponential_grad", 2},
}};

const OpFacts& facts_of(ElementwiseOp op) { return kOps[static_cast<std::size_t>(op)]; }

ElementwiseOp find_op(const std::string& name) {
  std::vector<std::string> names;
  for (std::size_t op = 0; op < kOps.size(); ++op) {
    if (kOps[op].name == name) return static_cast<ElementwiseOp>(op);
    names.emplace_back(kOps[op].name);
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

ElementwiseChain::Input spread_of(const std::string& program, const Shape& input, const Shape& shape) {
  using Spread = ElementwiseChain::Spread;
  const auto rank = input.size(), full = shape.size();
  // Leading 1s: rows repeat it anyway.
  const Shape tail(std::find_if(input.begin(), input.end(), [](auto n) { return n != 1; }), input.end());
  std::size_t same = 0;  // leading dimensions that equal the result's
  while (same < std::min(rank, full) && input[same] == shape[same]) ++same;
  if (input == shape) return {Spread::kFull};
  if (elements(input) == 1) return {Spread::kScalar};
  if (rank <= full && std::equal(tail.rbegin(), tail.rend(), shape.rbegin())) return {Spread::kRows, elements(input)};
  if (rank == full &&
      std::all_of(input.begin() + static_cast<std::ptrdiff_t>(same), input.end(), [](auto n) { return n == 1; }))
    return {Spread::kColumns, elements(shape) / std::max<std::int64_t>(elements(input), 1)};
  fail(ExitCode::kInternal, "internal error: elementwise '{}': input {} does not broadcast to {}", program,
       to_string(input), to_string(shape));
}

ElementwiseChain::Operand parse_operand(const ElementwiseChain& chain, const std::string& word,
                                        const std::string& step) {
  using From = ElementwiseChain::From;
  ElementwiseChain::Operand o;
  if (parse_index(word, 'i', o.index)) {
    TESSERA_CHECK(o.index < std::ssize(chain.inputs), "elementwise step '{}' reads an input that is not there", step);
  } else {
    o.from = From::kStep;
    TESSERA_CHECK(parse_index(word, 't', o.index) && o.index < std::ssize(chain.steps),
                  "elementwise step '{}': '{}' is neither an input, an earlier step nor a number", step, word);
  }
  return o;
}

void parse_step(ElementwiseChain& chain, const std::string& program, const std::string& text) {
  const auto words = words_of(text);
  TESSERA_CHECK(!words.empty(), "elementwise '{}' has an empty step", program);
  ElementwiseChain::Step step;
  step.op = find_op(words[0]);
  const auto& facts = facts_of(step.op);
  TESSERA_CHECK(static_cast<int>(words.size()) == 1 + facts.tensors + facts.constants,
                "elementwise step '{}' takes {} tensors and {} constants", text, facts.tensors, facts.constants);
  float value = 0;
  for (int k = 0; k < facts.tensors; ++k) {
    auto& operand = k == 0 ? step.x : step.y;
    const auto& word = words[static_cast<std::size_t>(1 + k)];
    if (parse_float(word, value)) {
      operand = {ElementwiseChain::From::kConstant, static_cast<int>(chain.constants.size())};
      chain.constants.push_back(value);
    } else {
      operand = parse_operand(chain, word, text);
    }
  }
  if (facts.tensors == 1) step.y = step.x;
  for (int k = 0; k < facts.constants; ++k) {
    TESSERA_CHECK(parse_float(words[static_cast<std::size_t>(1 + facts.tensors + k)], value),
                  "elementwise step '{}' wants a number", text);
    (k == 0 ? step.a : step.b) = value;
  }
  TESSERA_CHECK(!facts.name.starts_with("leaky_relu") || step.a >= 0,
                "leaky_relu's gradient reads y: its slope is not negative");
  chain.steps.push_back(step);
}

}  // namespace

std::string_view name_of(ElementwiseOp op) { return facts_of(op).name; }

ElementwiseChain parse_chain(const std::string& program, const std::vector<Shape>& inputs, const Shape& shape,
                             std::vector<std::int64_t> results) {
  ElementwiseChain chain;
  chain.size = elements(shape);
  for (const auto& input : inputs) chain.inputs.push_back(spread_of(program, input, shape));
  for (const auto& text : steps_of(program)) parse_step(chain, program, text);
  chain.results = std::move(results);
  if (chain.results.empty()) chain.results.push_back(std::ssize(chain.steps) - 1);
  for (std::size_t r = 0; r < chain.results.size(); ++r) {
    const auto k = chain.results[r];
    TESSERA_CHECK(k >= 0 && k < std::ssize(chain.steps), "elementwise '{}' has no step {}", program, k);
    auto& step = chain.steps[static_cast<std::size_t>(k)];
    TESSERA_CHECK(step.result < 0, "elementwise '{}' gives step {} twice", program, k);
    step.result = static_cast<int>(r);
  }
  return chain;
}

}  // namespace tessera::device
