#include "comm/mpi/multi_node_communicator.h"

#include <algorithm>
#include <utility>

#include "comm/box_bytes.h"
#include "comm/node/box_exchange.h"
#include "comm/pieces.h"
#include "comm/reduce.h"
#include "core/error.h"

namespace tessera::comm {

MultiNodeCommunicator::MultiNodeCommunicator(std::vector<int> world_ranks, std::vector<std::vector<int>> nodes, int own,
                                             NodeGroup local, Messages messages, int tag, MessageMemory& memory,
                                             Counters& counters)
    : world_ranks_(std::move(world_ranks)),
      nodes_(std::move(nodes)),
      places_(world_ranks_.size()),
      own_(own),
      local_(std::move(local)),
      messages_(std::move(messages)),
      tag_(tag),
      counters_(counters),
      owners_(members(0)),
      memory_(memory),
      from_locals_(static_cast<std::size_t>(local_.size())),
      from_nodes_(nodes_.size()) {
  for (int node = 0; node < this->nodes(); ++node) {
    owners_ = std::min(owners_, members(node));
    for (int index = 0; index < members(node); ++index) {
      places_[static_cast<std::size_t>(member(node, index))] = {node, index};
    }
  }
  here_ = place(own_);
}

/// handle(sequence, begin, end, post) for windows so small that `rows` rows of one fit in the staging memory; a round
/// after each.
template <typename Handle>
void MultiNodeCommunicator::for_each_window(Kind kind, const std::vector<Piece>& pieces, DType dtype, Reduce reduce,
                                            int slots, int rows, Handle handle) {
  const Sequence sequence{pieces, slots, size_of(dtype)};
  const auto bytes = bytes_in(pieces, dtype, slots);
  add_call(counters_, kind, bytes, size());
  const auto length = sequence.length();
  const Post post{signature(kind, dtype, reduce, bytes / sequence.size), 0};
  const auto most = local_.staging_bytes() / (sequence.size * rows);
  TESSERA_CHECK(most > 0, "{} bytes of staging for {} ranks", local_.staging_bytes(), size());
  for (std::int64_t begin = 0; begin < length; begin += most) {
    handle(sequence, begin, std::min(length, begin + most), post);
    local_.round(kind, post);  // the staging memory may be written again
  }
}

void MultiNodeCommunicator::all_reduce(const std::vector<Piece>& pieces, DType dtype, Reduce reduce) {
  const auto handle = [&](const Sequence& sequence, std::int64_t begin, std::int64_t end, const Post& post) {
    auto* staging = local_.staging(here_.index);
    sequence.pack(begin, end, staging, end - begin);
    local_.round(Kind::kAllReduce, post);
    if (here_.index < owners_) {
      const auto [first, last] = slice(end - begin, here_.index, owners_);
      const auto at = first * sequence.size;
      for (int k = 0; k < local_.size(); ++k) from_locals_[static_cast<std::size_t>(k)] = local_.staging(k) + at;
      to_[0] = memory_.mine.data();
      comm::reduce(dtype, reduce, from_locals_, to_, last - first);
      sum_between_nodes(dtype, reduce, last - first);
      for (int k = 0; k < local_.size(); ++k) {
        copy_bytes(local_.staging(k) + at, memory_.mine.data(), (last - first) * sequence.size);
      }
    }
    local_.round(Kind::kAllReduce, post);
    sequence.unpack(begin, end, staging, 0);
  };
  for_each_window(Kind::kAllReduce, pieces, dtype, reduce, 1, 1, handle);
}

/// `count` elements of `mine` of the owners with the own index on all nodes: each sums a part, then all collect the
/// parts.
void MultiNodeCommunicator::sum_between_nodes(DType dtype, Reduce reduce, std::int64_t count) {
  const auto size = size_of(dtype);
  const auto part = [&](int node) { return slice(count, node, nodes()); };
  const auto peer = [&](int node) { return world_rank(member(node, here_.index)); };
  const auto bytes_of_part = [&](int node) { return (part(node).second - part(node).first) * size; };
  auto* own = memory_.mine.data() + part(here_.node).first * size;
  const auto own_bytes = bytes_of_part(here_.node);
  for (int node = 0; node < nodes(); ++node) {
    from_nodes_[static_cast<std::size_t>(node)] = node == here_.node ? own : memory_.theirs.data() + node * own_bytes;
    if (node == here_.node) continue;
    messages_.receive(memory_.theirs.data() + node * own_bytes, own_bytes, peer(node), tag_);
    messages_.send(memory_.mine.data() + part(node).first * size, bytes_of_part(node), peer(node), tag_);
  }
  messages_.wait("all_reduce");
  to_[0] = own;
  comm::reduce(dtype, reduce, from_nodes_, to_, own_bytes / size);
  for (int node = 0; node < nodes(); ++node) {
    if (node == here_.node) continue;
    messages_.receive(memory_.mine.data() + part(node).first * size, bytes_of_part(node), peer(node), tag_);
    messages_.send(own, own_bytes, peer(node), tag_);
  }
  messages_.wait("all_reduce");
}

void MultiNodeCommunicator::reduce_scatter(const std::vector<Piece>& pieces, DType dtype, Reduce reduce) {
  const auto handle = [&](const Sequence& sequence, std::int64_t begin, std::int64_t end, const Post& post) {
    const auto width = end - begin;
    const auto row = width * sequence.size;
    sequence.pack(begin, end, local_.staging(here_.index), width);
    local_.round(Kind::kReduceScatter, post);
    const auto sum_here = [&](int member, std::byte* to) {
      for (int k = 0; k < local_.size(); ++k) {
        from_locals_[static_cast<std::size_t>(k)] = local_.staging(k) + member * row;
      }
      to_[0] = to;
      comm::reduce(dtype, reduce, from_locals_, to_, width);
    };
    for (int node = 0; node < nodes(); ++node) {
      from_nodes_[static_cast<std::size_t>(node)] = memory_.theirs.data() + node * row;
      if (node == here_.node) continue;
      messages_.receive(memory_.theirs.data() + node * row, row, world_rank(deputy(node, own_)), tag_);
    }
    for (int member = 0; member < size(); ++member) {
      if (!is_deputy_for(member)) continue;
      sum_here(member, memory_.mine.data() + member * row);
      messages_.send(memory_.mine.data() + member * row, row, world_rank(member), tag_);
    }
    sum_here(own_, memory_.theirs.data() + here_.node * row);
    messages_.wait("reduce_scatter");
    to_[0] = memory_.mine.data();
    comm::reduce(dtype, reduce, from_nodes_, to_, width);
    sequence.unpack(begin, end, memory_.mine.data(), 0);
  };
  for_each_window(Kind::kReduceScatter, pieces, dtype, reduce, size(), size(), handle);
}

void MultiNodeCommunicator::all_gather(const std::vector<Piece>& pieces, DType dtype) {
  const auto handle = [&](const Sequence& sequence, std::int64_t begin, std::int64_t end, const Post& post) {
    const auto row = (end - begin) * sequence.size;
    auto* staging = local_.staging(here_.index);
    sequence.pack(begin, end, staging + own_ * row, end - begin);
    for (int member = 0; member < size(); ++member) {
      if (is_deputy_for(member)) messages_.receive(staging + member * row, row, world_rank(member), tag_);
    }
    for (int node = 0; node < nodes(); ++node) {
      if (node != here_.node) messages_.send(staging + own_ * row, row, world_rank(deputy(node, own_)), tag_);
    }
    messages_.wait("all_gather");
    local_.round(Kind::kAllGather, post);
    for (int member = 0; member < size(); ++member) {
      const auto holder = place(member).index % local_.size();
      sequence.unpack(begin, end, local_.staging(holder) + member * row, member);
    }
  };
  for_each_window(Kind::kAllGather, pieces, dtype, Reduce::kSum, 1, size(), handle);
}

void MultiNodeCommunicator::all_to_all(const std::vector<Piece>& pieces, DType dtype) {
  const auto handle = [&](const Sequence& sequence, std::int64_t begin, std::int64_t end, const Post& post) {
    const auto row = (end - begin) * sequence.size;
    auto* staging = local_.staging(here_.index);
    sequence.pack(begin, end, staging, end - begin);
    for (int member = 0; member < size(); ++member) {
      if (place(member).node == here_.node) continue;
      messages_.receive(memory_.theirs.data() + member * row, row, world_rank(member), tag_);
      messages_.send(staging + member * row, row, world_rank(member), tag_);
    }
    messages_.wait("all_to_all");
    local_.round(Kind::kAllToAll, post);
    for (int member = 0; member < size(); ++member) {
      const auto [node, index] = place(member);
      const auto* from = node == here_.node ? local_.staging(index) + own_ * row : memory_.theirs.data() + member * row;
      sequence.unpack(begin, end, from, member);
    }
  };
  for_each_window(Kind::kAllToAll, pieces, dtype, Reduce::kSum, size(), size(), handle);
}

void MultiNodeCommunicator::box_exchange(const void* in, const std::vector<BoxTransfer>& sends, void* out,
                                         const std::vector<BoxTransfer>& receives, DType dtype) {
  add_box_exchange(counters_, receives, dtype, own_);
  exchange_boxes(local_, nodes_[static_cast<std::size_t>(here_.node)], in, sends, out, receives, dtype);
  const auto bytes = size_of(dtype);
  const auto width = local_.staging_bytes() / size();
  const auto part = [&](const BoxBytes& stream, std::int64_t at) {
    return std::pair{at, std::max(at, std::min(stream.length(), at + width))};
  };
  for (std::int64_t at = 0, longest = 1; at < longest; at += width) {
    for (int member = 0; member < size(); ++member) {
      if (place(member).node == here_.node) continue;
      const BoxBytes to(sends, member, bytes), from(receives, member, bytes);
      longest = std::max({longest, to.length(), from.length()});
      const auto [begin, end] = part(to, at);
      auto* slot = memory_.mine.data() + member * width;
      to.pack(in, begin, end, slot);
      messages_.receive(memory_.theirs.data() + member * width, part(from, at).second - at, world_rank(member), tag_);
      messages_.send(slot, end - begin, world_rank(member), tag_);
    }
    messages_.wait("box_exchange");
    for (int member = 0; member < size(); ++member) {
      if (place(member).node == here_.node) continue;
      const BoxBytes from(receives, member, bytes);
      from.unpack(out, at, part(from, at).second, memory_.theirs.data() + member * width);
    }
  }
}

void MultiNodeCommunicator::barrier() {
  const Post post{signature(Kind::kBarrier, DType::kU8, Reduce::kSum, 0), 0};
  local_.round(Kind::kBarrier, post);
  if (here_.index == 0) {
    for (int node = 0; node < nodes(); ++node) {
      if (node == here_.node) continue;
      messages_.receive(memory_.theirs.data() + node, 1, world_rank(member(node, 0)), tag_);
      messages_.send(memory_.mine.data(), 1, world_rank(member(node, 0)), tag_);
    }
    messages_.wait("barrier");
  }
  local_.round(Kind::kBarrier, post);
}

}  // namespace tessera::comm
