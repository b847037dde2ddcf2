#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "partition/accesses.h"
#include "partition/passes.h"
#include "partition/program_builder.h"

namespace tessera::partition {
namespace {

bool is_update(const KernelCall& call) {
  return call.kernel == "sgd_update" || call.kernel == "adam_update" || call.kernel == "rmsprop_update";
}

std::set<int> roots(const Program& program, const std::vector<int>& values) {
  std::set<int> out;
  for (const int v : values) out.insert(root_of(program, v));
  return out;
}

bool touch(const std::set<int>& a, const std::set<int>& b) {
  return std::any_of(a.begin(), a.end(), [&](int root) { return b.contains(root); });
}

/// Splits a section, without the marked instructions, into what follows from these values and the rest.
struct Split {
  std::vector<Instruction> rest, followers;
  bool independent = true;  // the followers may run after all the rest

  Split(const Program& program, const Section& section, const std::vector<bool>& gone, const std::set<int>& sums) {
    auto values = sums;  // and what is made of them
    std::set<int> written, read, made;
    for (std::size_t i = 0; i < section.instructions.size(); ++i) {
      if (gone[i]) continue;
      const auto& instruction = section.instructions[i];
      const auto reads = roots(program, reads_of(instruction)), writes = roots(program, writes_of(instruction));
      if (touch(reads, values)) {
        const auto* call = std::get_if<KernelCall>(&instruction.what);
        independent = independent && (call == nullptr || !is_update(*call));
        values.insert(writes.begin(), writes.end());
        made.insert(writes.begin(), writes.end());
        read.insert(reads.begin(), reads.end());
        followers.push_back(instruction);
      } else {
        written.insert(writes.begin(), writes.end());
        rest.push_back(instruction);
      }
    }
    for (const int sum : sums) written.erase(sum);  // by the updates, for the followers
    independent = independent && !touch(made, written) && !touch(read, written);
  }
};

void fuse_norm(Program& program, Section& section) {
  std::map<int, std::size_t> updates;  // by the gradient
  for (std::size_t i = 0; i < section.instructions.size(); ++i)
    if (const auto* call = std::get_if<KernelCall>(&section.instructions[i].what); call != nullptr && is_update(*call))
      updates.emplace(call->inputs[1], i);
  auto fused = section;
  std::vector<bool> gone(section.instructions.size(), false);
  std::set<int> sums;
  for (std::size_t i = 0; i < section.instructions.size(); ++i) {
    const auto* call = std::get_if<KernelCall>(&section.instructions[i].what);
    if (call == nullptr || call->kernel != "sum_squares") continue;
    const auto found = updates.find(call->inputs[0]);
    if (found == updates.end()) continue;
    auto& update = std::get<KernelCall>(fused.instructions[found->second].what);
    update.outputs.push_back(call->outputs[0]);
    update.attributes.set("sum_squares", true);
    sums.insert(root_of(program, call->outputs[0]));
    gone[i] = true;
    updates.erase(found);
  }
  if (sums.empty()) return;
  Split split(program, fused, gone, sums);
  if (!split.independent) return;
  section.instructions = std::move(split.rest);
  std::move(split.followers.begin(), split.followers.end(), std::back_inserter(section.instructions));
}

}  // namespace

void fuse_gradient_norm(Program& program) {
  for (auto& [name, epilogue] : program.epilogues) fuse_norm(program, epilogue);
}

}  // namespace tessera::partition
