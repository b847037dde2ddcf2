#pragma once

#include <cstddef>
#include <vector>

#include "comm/aligned.h"
#include "comm/mpi/messages.h"
#include "comm/node/node_group.h"

namespace tessera::comm {

/// What goes to and comes from other nodes in one round: of a world, because its collectives follow one another.
struct MessageMemory {
  explicit MessageMemory(std::int64_t staging_bytes)  // slices are rounded up
      : mine(2 * staging_bytes), theirs(2 * staging_bytes) {}
  AlignedBytes mine, theirs;
};

/// Collectives of a group that lies on several nodes: through the staging memory inside a node, by messages between
/// nodes. What is summed is summed in rank order inside a node, then in the order of the nodes (that of their first
/// member), on one owner.
class MultiNodeCommunicator final : public Communicator {
 public:
  /// `world_ranks`: of the group; `nodes`: by node the members (indices in the group), in order; `own`: the own index;
  /// `local`: the members of the own node. `tag`: the same on all members.
  MultiNodeCommunicator(std::vector<int> world_ranks, std::vector<std::vector<int>> nodes, int own, NodeGroup local,
                        Messages messages, int tag, MessageMemory& memory, Counters& counters);

  int rank() const override { return own_; }
  int size() const override { return static_cast<int>(world_ranks_.size()); }
  void all_reduce(const std::vector<Piece>& pieces, DType dtype, Reduce reduce) override;
  void reduce_scatter(const std::vector<Piece>& pieces, DType dtype, Reduce reduce) override;
  void all_gather(const std::vector<Piece>& pieces, DType dtype) override;
  void all_to_all(const std::vector<Piece>& pieces, DType dtype) override;
  void box_exchange(const void* in, const std::vector<BoxTransfer>& sends, void* out,
                    const std::vector<BoxTransfer>& receives, DType dtype) override;
  void barrier() override;

 private:
  struct Place {
    int node, index;  // among the nodes of the group; among the members there
  };
  int nodes() const { return static_cast<int>(nodes_.size()); }
  int members(int node) const { return static_cast<int>(nodes_[static_cast<std::size_t>(node)].size()); }
  int member(int node, int index) const {
    return nodes_[static_cast<std::size_t>(node)][static_cast<std::size_t>(index)];
  }
  int world_rank(int member) const { return world_ranks_[static_cast<std::size_t>(member)]; }
  const Place& place(int member) const { return places_[static_cast<std::size_t>(member)]; }
  /// Who of a node handles what concerns a member of another node.
  int deputy(int node, int of) const { return member(node, place(of).index % members(node)); }
  bool is_deputy_for(int of) const { return place(of).node != here_.node && deputy(here_.node, of) == own_; }

  void sum_between_nodes(DType dtype, Reduce reduce, std::int64_t count);
  template <typename Handle>
  void for_each_window(Kind kind, const std::vector<Piece>& pieces, DType dtype, Reduce reduce, int slots, int rows,
                       Handle handle);

  std::vector<int> world_ranks_;
  std::vector<std::vector<int>> nodes_;
  std::vector<Place> places_;  // by member
  int own_;
  Place here_;
  NodeGroup local_;
  Messages messages_;
  int tag_;
  Counters& counters_;
  int owners_;  // members that every node has
  MessageMemory& memory_;
  std::vector<const std::byte*> from_locals_, from_nodes_;
  std::vector<std::byte*> to_ = {nullptr};
};

}  // namespace tessera::comm
