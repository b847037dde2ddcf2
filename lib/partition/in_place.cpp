#include <algorithm>
#include <map>

#include "partition/accesses.h"
#include "partition/passes.h"
#include "partition/program_builder.h"

namespace tessera::partition {

void write_in_place(Program& program) {
  static const std::map<std::string, bool> kAnyInput{
      // kernel -> whether any input may be written over, or just the first
      {"elementwise", true},     {"add_n", false},           {"softmax", false},
      {"softmax_finish", false}, {"dropout", false},         {"keep_or_zero", false},
      {"clip_by_norm", false},   {"softmax_backward", true}, {"average_gradient", false}};
  Accesses accesses(program);
  for (std::size_t p = 0; p < accesses.instructions().size(); ++p) {
    const auto* kernel = std::get_if<KernelCall>(&accesses.instruction(static_cast<int>(p)).what);
    if (kernel == nullptr || kernel->outputs.size() != 1) continue;
    const auto allowed = kAnyInput.find(kernel->kernel);
    if (allowed == kAnyInput.end()) continue;
    const int out = kernel->outputs[0];
    auto& target = program.values[static_cast<std::size_t>(out)];
    const auto& out_list = accesses.of(out);
    if (target.inside >= 0 || target.state >= 0 || out_list.empty() || out_list.front().position != static_cast<int>(p))
      continue;
    const auto inputs = allowed->second ? kernel->inputs.size() : 1;
    for (std::size_t k = 0; k < inputs; ++k) {
      const int in = kernel->inputs[k];
      const int root = root_of(program, in);
      const auto& source = program.values[static_cast<std::size_t>(root)];
      const auto& list = accesses.of(root);
      const auto& here = accesses.instructions()[p];
      if (root == out || accesses.kept(root) || source.pool != Pool::kArena || target.pool != Pool::kArena ||
          source.bytes != target.bytes)
        continue;
      // Dies here, was born in this section (it isn't read again by the next micro-batch), and is one operand only.
      if (list.back().position != static_cast<int>(p) ||
          accesses.instructions()[static_cast<std::size_t>(list.front().position)].section != here.section)
        continue;
      if (std::count_if(kernel->inputs.begin(), kernel->inputs.end(),
                        [&](int v) { return root_of(program, v) == root; }) != 1)
        continue;
      target.inside = in;
      accesses.merge(out, root);
      break;
    }
  }
}

}  // namespace tessera::partition
