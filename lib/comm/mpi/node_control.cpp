#include "comm/mpi/node_control.h"

#include <new>
#include <sched.h>

namespace tessera::comm {
namespace {

constexpr std::int64_t kMembersAt = (static_cast<std::int64_t>(sizeof(NodeControl)) + 63) / 64 * 64;

std::uint64_t hash(const std::vector<std::int64_t>& ranks, std::uint64_t start) {
  for (const auto rank : ranks) {
    start = (start ^ static_cast<std::uint64_t>(rank + 1)) * 0x9E3779B97F4A7C15ULL;
    start ^= start >> 29;
  }
  return start;
}

}  // namespace

std::int64_t NodeControl::bytes(int ranks) {
  return kMembersAt + std::int64_t{kPartitions} * ranks * static_cast<std::int64_t>(sizeof(Member));
}

Member* NodeControl::group(const std::vector<std::int64_t>& world_ranks, int local, std::int64_t control_bytes) {
  const std::uint64_t keys[2] = {hash(world_ranks, 1), hash(world_ranks, 0xCBF29CE484222325ULL)};
  while (lock_.exchange(1, std::memory_order_acquire) != 0) sched_yield();
  const auto members_at = [&](std::int64_t offset) {
    return reinterpret_cast<Member*>(reinterpret_cast<std::byte*>(this) + kMembersAt + offset);
  };
  Member* members = nullptr;
  for (std::uint32_t i = 0; i < groups_ && members == nullptr; ++i) {
    const auto& entry = entries_[i];
    if (entry.hash[0] == keys[0] && entry.hash[1] == keys[1]) members = members_at(entry.offset);
  }
  const auto needed = local * static_cast<std::int64_t>(sizeof(Member));
  if (members == nullptr && groups_ < kMaxGroups && kMembersAt + used_ + needed <= control_bytes) {
    members = members_at(used_);
    for (int i = 0; i < local; ++i) new (&members[i]) Member;
    entries_[groups_++] = {{keys[0], keys[1]}, used_};
    used_ += needed;
  }
  lock_.store(0, std::memory_order_release);
  return members;
}

}  // namespace tessera::comm
