#include "partition/clocks.h"

#include <algorithm>

#include "partition/accesses.h"

namespace tessera::partition {

std::vector<std::array<int, 2>> clocks(Program& program) {
  std::vector<std::array<int, 2>> out;
  std::array<std::array<int, 2>, 2> now{{{-1, -1}, {-1, -1}}};  // of each stream
  int begin = 0;
  for (auto* section : sections_of(program)) {
    for (const auto& i : section->instructions) {
      const auto stream = static_cast<std::size_t>(i.stream);
      auto& clock = now[stream];
      for (const int w : i.waits)
        for (std::size_t s = 0; s < 2; ++s) clock[s] = std::max(clock[s], out[static_cast<std::size_t>(begin + w)][s]);
      clock[stream] = static_cast<int>(out.size());
      out.push_back(clock);
    }
    begin = static_cast<int>(out.size());
    now = {{{begin - 1, begin - 1}, {begin - 1, begin - 1}}};  // the join
  }
  return out;
}

}  // namespace tessera::partition
