#include <algorithm>
#include <array>
#include <map>

#include "partition/accesses.h"
#include "partition/passes.h"
#include "partition/program_builder.h"

namespace tessera::partition {
namespace {

/// Last touches of a root, by stream; -1: none in this section.
struct LastTouch {
  std::array<int, 2> read{-1, -1}, write{-1, -1};
};

}  // namespace

void add_waits(Program& program) {
  for (auto* section : sections_of(program)) {
    std::map<int, LastTouch> touches;
    std::array<int, 2> known{-1, -1};  // what a stream has already waited for in the other one
    for (std::size_t i = 0; i < section->instructions.size(); ++i) {
      auto& instruction = section->instructions[i];
      const auto mine = static_cast<std::size_t>(instruction.stream);
      const auto other = 1 - mine;
      int needed = -1;
      for (const int v : reads_of(instruction)) needed = std::max(needed, touches[root_of(program, v)].write[other]);
      for (const int v : writes_of(instruction)) {
        const auto& t = touches[root_of(program, v)];
        needed = std::max({needed, t.write[other], t.read[other]});
      }
      instruction.waits.clear();
      if (needed > known[mine]) {
        instruction.waits.push_back(needed);
        known[mine] = needed;
      }
      for (const int v : reads_of(instruction)) touches[root_of(program, v)].read[mine] = static_cast<int>(i);
      for (const int v : writes_of(instruction)) touches[root_of(program, v)].write[mine] = static_cast<int>(i);
    }
  }
}

}  // namespace tessera::partition
