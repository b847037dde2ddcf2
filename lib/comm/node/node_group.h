#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "comm/counting.h"
#include "comm/node/flag.h"
#include "comm/node/watch.h"

namespace tessera::comm {

/// What a member says about the call in hand when it arrives.
struct Post {
  std::uint64_t signature = 0;  // kind, dtype, reduction, elements: must be the same on all members
  std::uint64_t detail = 0;     // kind of call decides
};

std::uint64_t signature(Kind kind, DType dtype, Reduce reduce, std::int64_t count);

/// A member's corner of the memory that a group on one node shares. What belongs to a round lies in two copies, for
/// even and odd rounds: a member that writes round r + 2 knows that all have arrived in r + 1, so all have read r.
struct alignas(64) Member {
  static constexpr std::int64_t kMailbox = 4096;

  Flag arrived;  // rounds
  Post post[2];
  alignas(64) std::byte mailbox[2][kMailbox];
};

/// Memory of a rank that its peers on the node can read and write.
struct Shared {
  std::byte* region = nullptr;   // the communication region
  std::byte* staging = nullptr;  // where what lies outside of it passes through
};

/// The shared memory of a node as one rank sees it, by index in the node.
struct NodeMemory {
  std::vector<Shared> ranks;
  std::int64_t region_bytes = 0;
  std::int64_t staging_bytes = 0;
};

/// The members of a group that share a node, as one of them sees it.
class NodeGroup {
 public:
  /// `members`: one for each; `node_ranks`, `world_ranks`: theirs, in the order of the group. `crowded`: more ranks
  /// than processors, so that waiting must not hold one.
  NodeGroup(Member* members, int index, std::vector<int> node_ranks, std::vector<int> world_ranks,
            const NodeMemory& memory, const Watch& watch, bool crowded);

  int index() const { return index_; }
  int size() const { return static_cast<int>(node_ranks_.size()); }

  /// One round: posts, waits until every member has arrived, and compares the signatures.
  void round(Kind kind, const Post& post);

  /// The mailboxes of the round that comes next, and of the last one.
  std::byte* own_mailbox() { return members_[index_].mailbox[(round_ + 1) % 2]; }
  const std::byte* mailbox(int member) const { return members_[member].mailbox[round_ % 2]; }
  const Post& post(int member) const { return members_[member].post[round_ % 2]; }

  std::byte* staging(int member) const { return shared(member).staging; }
  std::int64_t staging_bytes() const { return memory_.staging_bytes; }
  /// How much of it a round should use, so that it stays in the caches.
  std::int64_t part_bytes() const { return std::min<std::int64_t>(1024 << 10, staging_bytes()); }

  /// Whether this memory of the own rank lies in its communication region, and its offset there.
  bool in_region(const void* data, std::int64_t bytes) const;
  std::int64_t region_offset(const void* data) const;
  /// A peer's memory at the same offset.
  std::byte* peer(int member, const void* own) const;

 private:
  const Shared& shared(int member) const {
    return memory_.ranks[static_cast<std::size_t>(node_ranks_[static_cast<std::size_t>(member)])];
  }
  void wait(Kind kind);
  [[noreturn]] void fail_mismatch(int member) const;

  Member* members_;
  int index_;
  std::vector<int> node_ranks_, world_ranks_;
  const NodeMemory& memory_;
  const Watch& watch_;
  bool spin_;
  std::uint32_t round_ = 0;
  std::vector<int> missing_;
};

}  // namespace tessera::comm
