#pragma once

#include <vector>

#include "comm/node/node_group.h"

namespace tessera::comm {

/// Collectives of ranks that share memory. Small calls pass through the mailboxes in one round. Pieces in the
/// communication region, at the same offsets on all members, are read where they lie: one round before, one after.
/// Others pass through the staging memory part by part.
class SharedMemoryCommunicator final : public Communicator {
 public:
  SharedMemoryCommunicator(NodeGroup group, Counters& counters);

  int rank() const override { return group_.index(); }
  int size() const override { return group_.size(); }
  void all_reduce(const std::vector<Piece>& pieces, DType dtype, Reduce reduce) override;
  void reduce_scatter(const std::vector<Piece>& pieces, DType dtype, Reduce reduce) override;
  void all_gather(const std::vector<Piece>& pieces, DType dtype) override;
  void all_to_all(const std::vector<Piece>& pieces, DType dtype) override;
  void box_exchange(const void* in, const std::vector<BoxTransfer>& sends, void* out,
                    const std::vector<BoxTransfer>& receives, DType dtype) override;
  void barrier() override;

 private:
  struct Call;
  void run(const Call& call);
  bool agree_on_direct(const Call& call, const Post& post);
  void run_mailbox(const Call& call, const Post& post);
  void run_direct(const Call& call);
  void run_staged(const Call& call, const Post& post);
  template <typename Source>
  void collect(const Call& call, std::int64_t begin, std::int64_t end, Source source);

  NodeGroup group_;
  Counters& counters_;
  std::vector<const std::byte*> from_;  // by member
  std::vector<std::byte*> to_;
  std::vector<int> peers_;                   // 0, 1, ...
  std::vector<std::byte*> out_ = {nullptr};  // the own one alone
};

}  // namespace tessera::comm
