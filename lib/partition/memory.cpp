#include <algorithm>
#include <array>
#include <limits>

#include "partition/accesses.h"
#include "partition/clocks.h"
#include "partition/passes.h"
#include "partition/program_builder.h"

namespace tessera::partition {
namespace {

/// A root to be placed: from which instructions on it is in use, and until which, by stream.
struct Item {
  int value = -1;
  std::int64_t bytes = 0;
  std::array<int, 2> end{-1, -1};             // last touches
  std::array<std::array<int, 2>, 2> begin{};  // clocks of the first touch in each stream
  std::int64_t offset = -1;
  int first = 0;
};

bool ends_before(const Item& a, const Item& b) {
  for (const auto& clock : b.begin)
    if (clock[0] < a.end[0] || clock[1] < a.end[1]) return false;
  return true;
}

/// Largest first, each at the lowest offset where nothing is in use at the same time.
std::int64_t place(std::vector<Item>& items, std::int64_t base) {
  std::stable_sort(items.begin(), items.end(), [](const Item& a, const Item& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.first < b.first;
  });
  std::int64_t end = base;
  std::vector<const Item*> placed;  // by offset
  for (auto& item : items) {
    std::int64_t offset = base;
    for (const auto* other : placed) {
      if (other->offset >= offset + item.bytes) break;
      if (other->offset + other->bytes <= offset) continue;
      if (!ends_before(item, *other) && !ends_before(*other, item)) offset = other->offset + other->bytes;
    }
    item.offset = offset;
    end = std::max(end, offset + item.bytes);
    const auto at = std::upper_bound(placed.begin(), placed.end(), &item,
                                     [](const Item* a, const Item* b) { return a->offset < b->offset; });
    placed.insert(at, &item);
  }
  return end;
}

}  // namespace

PoolSizes allocate(Program& program, std::int64_t comm_base) {
  const Accesses accesses(program);
  const auto clock = clocks(program);
  const int last = static_cast<int>(clock.size());
  std::array<std::vector<Item>, kPoolCount> pools;
  for (std::size_t v = 0; v < program.values.size(); ++v) {
    const auto& value = program.values[v];
    if (value.inside >= 0 || value.state >= 0) continue;
    const auto& list = accesses.of(static_cast<int>(v));
    const bool kept = accesses.kept(static_cast<int>(v));
    const bool input = value.pool == Pool::kStaging;
    if (list.empty() && !input && !kept) continue;
    Item item;
    item.value = static_cast<int>(v);
    item.bytes = aligned(std::max<std::int64_t>(value.bytes, 1));
    item.begin = {{{last, last}, {last, last}}};
    item.first = list.empty() ? 0 : list.front().position;
    std::array<bool, 2> seen{false, false};
    bool outside_body = false, inside_body = false;
    for (const auto& a : list) {
      const auto& i = accesses.instruction(a.position);
      const auto s = static_cast<std::size_t>(i.stream);
      if (!seen[s]) {
        seen[s] = true;
        item.begin[s] = clock[static_cast<std::size_t>(a.position)];
        item.begin[s][s] = a.position - 1;  // what ended before it, in its own stream
      }
      item.end[s] = std::max(item.end[s], a.position);
      const bool body = a.position >= accesses.body_begin() && a.position < accesses.body_end();
      (body ? inside_body : outside_body) = true;
    }
    const int body_first = accesses.body_begin() - 1, body_last = accesses.body_end() - 1;
    if (program.micro_batches > 1 && inside_body && (outside_body || kept)) {
      // It lives through all rounds of the body.
      for (auto& begin : item.begin)
        for (auto& b : begin) b = std::min(b, body_first);
      for (auto& e : item.end) e = std::max(e, body_last);
    }
    if (input) item.begin = {{{-1, -1}, {-1, -1}}};
    if (input || kept) item.end = {last, last};
    pools[static_cast<std::size_t>(value.pool)].push_back(item);
  }
  PoolSizes sizes;
  sizes.arena = place(pools[static_cast<int>(Pool::kArena)], 0);
  sizes.comm = place(pools[static_cast<int>(Pool::kComm)], comm_base);
  sizes.staging = place(pools[static_cast<int>(Pool::kStaging)], 0);
  for (const auto& items : pools)
    for (const auto& item : items) program.values[static_cast<std::size_t>(item.value)].offset = item.offset;
  return sizes;
}

}  // namespace tessera::partition
