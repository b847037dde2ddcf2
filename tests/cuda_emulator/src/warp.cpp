// A lane leaves its value and waits; the last lane of the mask computes everybody's result and wakes them, so no slot
// is used again too early.
#include <algorithm>
#include <bit>
#include <limits>

#include "block_state.h"

namespace tessera::cuda_emulator {
namespace {

// A shuffle from outside the mask is undefined in CUDA: bits that are a NaN in f32, f16 and bf16.
constexpr std::uint64_t kUndefined = ~std::uint64_t(0);

std::uint64_t combine(WarpOp op, std::uint64_t a, std::uint64_t b) {
  switch (op) {
    case WarpOp::kReduceAdd:
      return a + b;
    case WarpOp::kReduceMax:
      return std::uint64_t(std::max(std::int64_t(a), std::int64_t(b)));
    case WarpOp::kReduceMin:
      return std::uint64_t(std::min(std::int64_t(a), std::int64_t(b)));
    case WarpOp::kReduceAnd:
      return a & b;
    case WarpOp::kReduceXor:
      return a ^ b;
    default:
      return a | b;  // kReduceOr; a ballot's bits
  }
}

}  // namespace

// The lanes that already wait with this mask, or none yet.
LaneGroup& BlockState::join_group(WarpOp op, unsigned mask, unsigned lane, Where where) {
  Warp& warp = warps_[current_->number / 32];
  auto* const end = warp.groups.data() + warp.group_count;
  auto* group = std::find_if(warp.groups.data(), end, [&](const LaneGroup& g) { return g.mask == mask; });
  if (group == end) {
    *group = {mask, 0, op, where};
    ++warp.group_count;
  } else if (group->op != op || group->where.line != where.line) {
    fault_here("divergent warp operation: " + name(*current_) + " at " + to_string(where) + ", others at " +
               to_string(group->where));
  }
  group->arrived |= 1u << lane;
  return *group;
}

std::uint64_t BlockState::warp_collective(WarpOp op, unsigned mask, std::uint64_t value, unsigned source, Where where) {
  Thread& self = *current_;
  const unsigned number = self.number / 32, lane = self.number % 32;
  Warp& warp = warps_[number];
  if ((mask >> lane & 1) == 0) fault_here(name(self) + " is not in its own mask at " + to_string(where));
  if (mask == ~0u) mask = warp.members;  // a full mask in a partial last warp means its lanes
  if ((mask & (warp.done | ~warp.members)) != 0)
    fault_here(name(self) + " waits at " + to_string(where) + " for lanes that have returned or don't exist");
  self.value = op == WarpOp::kBallot ? value << lane : value;
  self.source = source & 31;
  LaneGroup& group = join_group(op, mask, lane, where);
  if (group.arrived != mask) {
    wait(Thread::State::kAtWarp, where);
    return self.result;
  }
  group = warp.groups[--warp.group_count];

  Thread* lanes = &threads_[number * 32];
  std::uint64_t result = lanes[std::countr_zero(mask)].value;
  if (op != WarpOp::kShuffle && op != WarpOp::kSync)
    for (unsigned rest = mask & (mask - 1); rest != 0; rest &= rest - 1)
      result = combine(op, result, lanes[std::countr_zero(rest)].value);
  for (unsigned rest = mask; rest != 0; rest &= rest - 1) {
    Thread& t = lanes[std::countr_zero(rest)];
    if (op != WarpOp::kShuffle)
      t.result = result;
    else
      t.result = (mask >> t.source & 1) != 0 ? lanes[t.source].value : kUndefined;
  }
  running_thread.position.warp_epoch = ++warp.epoch;
  wake(number, mask & ~(1u << lane));
  return self.result;
}

std::uint64_t warp_collective(WarpOp op, unsigned mask, std::uint64_t value, unsigned source, Where where) {
  return block_state().warp_collective(op, mask, value, source, where);
}
unsigned lane_index() { return block_state().current().number % 32; }
unsigned active_mask() {
  const Warp& warp = block_state().warp_of(block_state().current());
  return warp.members & ~warp.done;
}

}  // namespace tessera::cuda_emulator
