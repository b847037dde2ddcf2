#include "support/planned_counters.h"

namespace tessera::test {

comm::Counters planned_counters(const partition::Plan& plan, std::int64_t steps) {
  comm::Counters sum;
  const auto& program = plan.programs.at("train");
  const auto add = [&](const partition::Section& section, std::int64_t times) {
    for (const auto& i : section.instructions) {
      const auto* call = std::get_if<partition::CollectiveCall>(&i.what);
      if (call == nullptr) continue;
      comm::Counter* to = nullptr;
      switch (call->kind) {
        case partition::CollectiveKind::kAllReduce:
          to = &sum.all_reduce;
          break;
        case partition::CollectiveKind::kReduceScatter:
          to = &sum.reduce_scatter;
          break;
        case partition::CollectiveKind::kAllGather:
          to = &sum.all_gather;
          break;
        case partition::CollectiveKind::kAllToAll:
          to = &sum.all_to_all;
          break;
        case partition::CollectiveKind::kBoxExchange:
          continue;  // a rank's own share differs from the largest
      }
      to->calls += times;
      to->bytes += times * i.moved_bytes;
    }
  };
  add(program.prologue, steps);
  add(program.body, steps * program.micro_batches);
  add(program.epilogues.at("apply"), steps);
  return sum;
}

}  // namespace tessera::test
