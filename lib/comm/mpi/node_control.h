#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "comm/node/node_group.h"

namespace tessera::comm {

/// The first bytes of a node's shared memory: who failed, and the groups with their members' memory. Zeroed memory is
/// its initial state.
class NodeControl {
 public:
  /// Bytes for a node of this many ranks: the groups of kPartitions partitions of them.
  static std::int64_t bytes(int ranks);

  /// The members' memory of the group with this list of world ranks, `local` of which are on this node. The first who
  /// asks makes it. nullptr: no memory left.
  Member* group(const std::vector<std::int64_t>& world_ranks, int local, std::int64_t control_bytes);

  std::atomic<std::uint32_t> failed;    // 1 + the rank
  std::atomic<std::uint32_t> aborting;  // 1: a rank has taken it on itself to end the job

  static constexpr int kMostRanks = 1024;
  std::atomic<std::int64_t> steps[kMostRanks];    // that the ranks of the node have come to
  std::atomic<std::int32_t> outside[kMostRanks];  // their threads that wait for messages

 private:
  static constexpr int kPartitions = 256;
  static constexpr int kMaxGroups = 8192;
  struct Entry {
    std::uint64_t hash[2];
    std::int64_t offset;
  };

  std::atomic<std::uint32_t> lock_;
  std::uint32_t groups_;
  std::int64_t used_;  // bytes of members
  Entry entries_[kMaxGroups];
};

}  // namespace tessera::comm
