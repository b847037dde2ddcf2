#include <algorithm>
#include <set>
#include <sstream>

#include "partition/accesses.h"
#include "partition/passes.h"
#include "partition/program_builder.h"

namespace tessera::partition {
namespace {

constexpr std::size_t kLongestChain = 12;  // steps; a chain's temporaries stay in the first-level cache

/// The elementwise text program as tokens, a vector a step.
using Steps = std::vector<std::vector<std::string>>;

Steps parse(const std::string& program) {
  Steps steps(1);
  std::istringstream in(program);
  for (std::string token; in >> token;) {
    if (token == "|")
      steps.emplace_back();
    else
      steps.back().push_back(token);
  }
  return steps;
}

std::string print(const Steps& steps) {
  std::string out;
  for (const auto& step : steps) {
    if (!out.empty()) out += " | ";
    for (std::size_t i = 0; i < step.size(); ++i) out += (i > 0 ? " " : "") + step[i];
  }
  return out;
}

bool is_operand(const std::string& token) {
  return token.size() > 1 && (token[0] == 'i' || token[0] == 't') &&
         std::all_of(token.begin() + 1, token.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// Who reads each value, over all sections; -1: several, or the outside.
struct Readers {
  explicit Readers(Program& program) : only(program.values.size(), kNone) {
    for (auto* section : sections_of(program))
      for (std::size_t i = 0; i < section->instructions.size(); ++i)
        for (const int v : reads_of(section->instructions[i])) note(v, {section, static_cast<int>(i)});
    for (const auto& value : program.values)
      if (value.inside >= 0) only[static_cast<std::size_t>(value.inside)] = kMany;
    const auto kept = kept_roots(program);
    for (std::size_t v = 0; v < kept.size(); ++v)
      if (kept[v]) only[v] = kMany;
  }

  struct Reader {
    const Section* section = nullptr;
    int index = -1;
    bool operator==(const Reader&) const = default;
  };
  static constexpr Reader kNone{nullptr, -1};
  static constexpr Reader kMany{nullptr, -2};

  void note(int value, Reader reader) {
    auto& r = only[static_cast<std::size_t>(value)];
    if (r == kNone)
      r = reader;
    else if (!(r == reader))
      r = kMany;
  }
  /// The one instruction of this section that reads the value; -1 if there isn't just one.
  int in(const Section& section, int value) const {
    const auto& r = only[static_cast<std::size_t>(value)];
    return r.section == &section ? r.index : -1;
  }

  std::vector<Reader> only;
};

KernelCall* as_kernel(Instruction& i, const std::string& name) {
  auto* k = std::get_if<KernelCall>(&i.what);
  return k != nullptr && k->kernel == name ? k : nullptr;
}

/// "relu i0", "leaky_relu i0 0.2": what a matmul does to its result on the way.
bool is_activation(const std::vector<std::string>& step) {
  static const std::set<std::string> kPlain{"relu",     "relu6",    "selu",         "gelu",       "gelu_tanh",
                                            "silu",     "sigmoid",  "hard_sigmoid", "hard_silu",  "tanh",
                                            "softplus", "softsign", "mish",         "exponential"};
  static const std::set<std::string> kWithConstant{"leaky_relu", "elu", "celu"};
  return (step.size() == 2 && kPlain.contains(step[0])) || (step.size() == 3 && kWithConstant.contains(step[0]));
}

/// matmul -> add of a row vector, or matmul -> activation: the second becomes part of the first.
bool fuse_into_matmul(const Program& program, const KernelCall& matmul, KernelCall& next) {
  if (matmul.attributes.get_or("accumulate", false) || matmul.attributes.has("activation")) return false;
  const auto steps = parse(next.attributes.get<std::string>("program"));
  if (steps.size() != 1) return false;
  const auto& step = steps[0];
  const auto local = [&](int v) { return program.values[static_cast<std::size_t>(v)].local; };
  const int product = matmul.outputs[0];
  KernelCall fused = matmul;
  if (step[0] == "add" && next.inputs.size() == 2 && !matmul.attributes.has("bias")) {
    const int bias = next.inputs[0] == product ? next.inputs[1] : next.inputs[0];
    if (local(bias).size() != 1 || local(product).size() < 2 || local(bias)[0] != local(product).back()) return false;
    fused.inputs.push_back(bias);
    fused.attributes.set("bias", true);
  } else if (next.inputs.size() == 1 && is_activation(step)) {
    fused.attributes.set("activation", step[0]);
    if (step.size() > 2) fused.attributes.set("alpha", std::stod(step[2]));
  } else {
    return false;
  }
  fused.outputs = next.outputs;
  next = std::move(fused);
  return true;
}

/// elementwise -> elementwise of the same size: one chain.
bool fuse_chain(const Program& program, const KernelCall& first, KernelCall& next) {
  const int middle = first.outputs[0];
  const auto local = [&](int v) { return program.values[static_cast<std::size_t>(v)].local; };
  if (first.outputs.size() != 1 || first.attributes.has("results") || next.attributes.has("results")) return false;
  if (local(middle) != local(next.outputs[0])) return false;
  auto steps = parse(first.attributes.get<std::string>("program"));
  const auto tail = parse(next.attributes.get<std::string>("program"));
  if (steps.size() + tail.size() > kLongestChain) return false;
  const auto offset = steps.size();
  KernelCall fused = first;
  std::vector<std::string> names;  // of the second's inputs, in the chain
  for (const int v : next.inputs) {
    if (v == middle) {
      names.push_back("t" + std::to_string(offset - 1));
      continue;
    }
    const auto known = std::find(fused.inputs.begin(), fused.inputs.end(), v);
    names.push_back("i" + std::to_string(known - fused.inputs.begin()));
    if (known == fused.inputs.end()) fused.inputs.push_back(v);
  }
  for (auto step : tail) {
    for (std::size_t k = 1; k < step.size(); ++k) {
      if (!is_operand(step[k])) continue;
      const auto number = std::stoul(step[k].substr(1));
      step[k] = step[k][0] == 'i' ? names[number] : "t" + std::to_string(number + offset);
    }
    steps.push_back(std::move(step));
  }
  fused.attributes.set("program", print(steps));
  fused.outputs = next.outputs;
  next = std::move(fused);
  return true;
}

}  // namespace

void fuse_kernels(Program& program) {
  const Readers readers(program);
  for (auto* section : sections_of(program)) {
    std::vector<bool> gone(section->instructions.size(), false);
    for (std::size_t i = 0; i < section->instructions.size(); ++i) {
      auto& here = section->instructions[i];
      auto* first = as_kernel(here, "matmul");
      const bool matmul = first != nullptr;
      if (!matmul) first = as_kernel(here, "elementwise");
      if (first == nullptr || gone[i]) continue;
      const int j = readers.in(*section, first->outputs[0]);
      if (j < 0) continue;
      auto& there = section->instructions[static_cast<std::size_t>(j)];
      auto* next = as_kernel(there, "elementwise");
      if (next == nullptr || there.micro_batch != here.micro_batch) continue;
      if (!(matmul ? fuse_into_matmul(program, *first, *next) : fuse_chain(program, *first, *next))) continue;
      there.flops += here.flops;
      gone[i] = true;
    }
    erase_marked(*section, gone);
  }
}

}  // namespace tessera::partition
