#include <algorithm>

#include "partition/accesses.h"
#include "partition/passes.h"
#include "partition/program_builder.h"

namespace tessera::partition {

void prefetch_gathers(Program& program) {
  for (auto* section : sections_of(program)) {
    auto& list = section->instructions;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const auto* call = std::get_if<CollectiveCall>(&list[i].what);
      if (call == nullptr || call->kind != CollectiveKind::kAllGather) continue;
      if (list[i].phase != Phase::kForward && list[i].phase != Phase::kBackward) continue;
      const auto of_state = [&](const Segment& s) {
        return program.values[static_cast<std::size_t>(root_of(program, s.in))].state >= 0;
      };
      if (!std::all_of(call->segments.begin(), call->segments.end(), of_state)) continue;
      std::size_t to = i;
      while (to > 0 && list[to - 1].layer == list[i].layer) --to;
      if (to == 0) continue;
      const auto before = list[to - 1].layer;
      while (to > 0 && list[to - 1].layer == before) --to;
      std::rotate(list.begin() + static_cast<std::ptrdiff_t>(to), list.begin() + static_cast<std::ptrdiff_t>(i),
                  list.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    }
  }
}

}  // namespace tessera::partition
