#include "partition/accesses.h"

#include <algorithm>

#include "partition/program_builder.h"

namespace tessera::partition {

std::vector<Section*> sections_of(Program& program) {
  std::vector<Section*> sections{&program.prologue, &program.body};
  for (auto& [name, section] : program.epilogues) sections.push_back(&section);
  return sections;
}

Accesses::Accesses(Program& program) : by_root_(program.values.size()), kept_(kept_roots(program)) {
  for (auto* section : sections_of(program)) {
    if (section == &program.body) body_begin_ = static_cast<int>(entries_.size());
    for (std::size_t i = 0; i < section->instructions.size(); ++i) {
      const auto position = static_cast<int>(entries_.size());
      entries_.push_back({section, static_cast<int>(i)});
      for (const int v : reads_of(section->instructions[i])) list(root_of(program, v)).push_back({position, false});
      for (const int v : writes_of(section->instructions[i])) list(root_of(program, v)).push_back({position, true});
    }
    if (section == &program.body) body_end_ = static_cast<int>(entries_.size());
  }
}

void Accesses::merge(int root, int into) {
  auto& merged = list(into);
  const auto own = static_cast<std::ptrdiff_t>(merged.size());
  merged.insert(merged.end(), list(root).begin(), list(root).end());
  std::inplace_merge(merged.begin(), merged.begin() + own, merged.end(),
                     [](const Access& a, const Access& b) { return a.position < b.position; });
  list(root).clear();
  kept_[static_cast<std::size_t>(into)] = kept(into) || kept(root);
}

void Accesses::forget(int root, int position) {
  std::erase_if(list(root), [&](const Access& a) { return a.position == position; });
}

std::vector<bool> kept_roots(const Program& program) {
  std::vector<bool> kept(program.values.size(), false);
  const auto keep = [&](int value) { kept[static_cast<std::size_t>(root_of(program, value))] = true; };
  for (const auto& output : program.outputs) keep(output.value);
  for (const auto& [path, value] : program.gradients) keep(value);
  for (const int value : program.inputs) keep(value);
  for (std::size_t v = 0; v < program.values.size(); ++v)
    if (program.values[v].state >= 0) keep(static_cast<int>(v));
  return kept;
}

void erase_marked(Section& section, const std::vector<bool>& marked) {
  std::vector<Instruction> rest;
  for (std::size_t i = 0; i < section.instructions.size(); ++i)
    if (!marked[i]) rest.push_back(std::move(section.instructions[i]));
  section.instructions = std::move(rest);
}

}  // namespace tessera::partition
