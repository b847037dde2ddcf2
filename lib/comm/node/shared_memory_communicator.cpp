#include "comm/node/shared_memory_communicator.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "comm/node/box_exchange.h"
#include "comm/pieces.h"
#include "comm/reduce.h"
#include "core/error.h"

namespace tessera::comm {
namespace {

std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) { return (hash ^ value) * 0x100000001B3ULL; }

}  // namespace

struct SharedMemoryCommunicator::Call {
  Kind kind;
  Sequence sequence;
  DType dtype;
  Reduce reduce;
};

SharedMemoryCommunicator::SharedMemoryCommunicator(NodeGroup group, Counters& counters)
    : group_(std::move(group)),
      counters_(counters),
      from_(static_cast<std::size_t>(group_.size())),
      to_(static_cast<std::size_t>(group_.size())),
      peers_(static_cast<std::size_t>(group_.size())) {
  std::iota(peers_.begin(), peers_.end(), 0);
}

void SharedMemoryCommunicator::all_reduce(const std::vector<Piece>& pieces, DType dtype, Reduce reduce) {
  run({Kind::kAllReduce, {pieces, 1, size_of(dtype)}, dtype, reduce});
}

void SharedMemoryCommunicator::reduce_scatter(const std::vector<Piece>& pieces, DType dtype, Reduce reduce) {
  run({Kind::kReduceScatter, {pieces, size(), size_of(dtype)}, dtype, reduce});
}

void SharedMemoryCommunicator::all_gather(const std::vector<Piece>& pieces, DType dtype) {
  run({Kind::kAllGather, {pieces, 1, size_of(dtype)}, dtype, Reduce::kSum});
}

void SharedMemoryCommunicator::all_to_all(const std::vector<Piece>& pieces, DType dtype) {
  run({Kind::kAllToAll, {pieces, size(), size_of(dtype)}, dtype, Reduce::kSum});
}

void SharedMemoryCommunicator::barrier() {
  group_.round(Kind::kBarrier, {signature(Kind::kBarrier, DType::kU8, Reduce::kSum, 0), 0});
}

void SharedMemoryCommunicator::run(const Call& call) {
  const auto bytes = bytes_in(call.sequence.pieces, call.dtype, call.sequence.slots);
  add_call(counters_, call.kind, bytes, size());
  if (bytes == 0) return;
  const Post post{signature(call.kind, call.dtype, call.reduce, bytes / call.sequence.size), 0};
  if (bytes <= Member::kMailbox) {
    run_mailbox(call, post);
  } else if (agree_on_direct(call, post)) {
    run_direct(call);
    group_.round(call.kind, post);  // nobody reads what the caller may now change
  } else {
    run_staged(call, post);
  }
}

/// The round before: all have what the call needs in place, in the region at the same offsets.
bool SharedMemoryCommunicator::agree_on_direct(const Call& call, const Post& post) {
  const auto& [pieces, slots, size] = call.sequence;
  std::uint64_t places = 0xCBF29CE484222325ULL;
  bool inside = true;
  const auto place = [&, size = size](const void* data, std::int64_t count) {
    inside = inside && group_.in_region(data, count * size);
    if (inside) places = mixed(mixed(places, static_cast<std::uint64_t>(group_.region_offset(data))), 1);
  };
  for (const auto& piece : pieces) {
    places = mixed(places, static_cast<std::uint64_t>(piece.count));
    place(piece.in, piece.count);
    if (call.kind == Kind::kAllReduce) place(piece.out, piece.count);  // the owner of a slice writes it to all
  }
  group_.round(call.kind, {post.signature, inside ? places | 1 : 0});
  for (int member = 0; member < group_.size(); ++member) {
    if (!inside || group_.post(member).detail != group_.post(rank()).detail) return false;
  }
  return true;
}

/// Elements [begin, end) of every chunk of `out`; source(member, piece, slot, first, at): the member's `in`.
template <typename Source>
void SharedMemoryCommunicator::collect(const Call& call, std::int64_t begin, std::int64_t end, Source source) {
  const auto& sequence = call.sequence;
  sequence.for_each_run(begin, end, [&](const Piece& piece, std::int64_t first, std::int64_t count, std::int64_t at) {
    auto* out = bytes_of(piece.out) + first * sequence.size;
    const auto reads = sequence.slots == 1 ? 0 : rank();  // the chunk that is ours
    for (int member = 0; member < size(); ++member) {
      from_[static_cast<std::size_t>(member)] = source(member, piece, reads, first, at);
    }
    if (call.kind == Kind::kAllReduce || call.kind == Kind::kReduceScatter) {
      out_[0] = out;
      comm::reduce(call.dtype, call.reduce, from_, out_, count);
    } else {
      const auto chunk = sequence.chunk(piece) * sequence.size;
      for (int k = 0; k < size(); ++k) {
        const int member = (rank() + k) % size();  // not all from one at a time
        copy_bytes(out + member * chunk, from_[static_cast<std::size_t>(member)], count * sequence.size);
      }
    }
  });
}

void SharedMemoryCommunicator::run_mailbox(const Call& call, const Post& post) {
  const auto& sequence = call.sequence;
  const auto length = sequence.length();
  sequence.pack(0, length, group_.own_mailbox(), length);
  group_.round(call.kind, post);
  collect(call, 0, length, [&](int member, const Piece&, int slot, std::int64_t, std::int64_t at) {
    return group_.mailbox(member) + (slot * length + at) * sequence.size;
  });
}

void SharedMemoryCommunicator::run_direct(const Call& call) {
  const auto& sequence = call.sequence;
  const auto length = sequence.length();
  if (call.kind == Kind::kAllReduce) {
    const auto [begin, end] = slice(length, rank(), size());
    sequence.for_each_run(begin, end, [&](const Piece& piece, std::int64_t first, std::int64_t count, std::int64_t) {
      for (int k = 0; k < size(); ++k) {
        from_[static_cast<std::size_t>(k)] = group_.peer(k, piece.in) + first * sequence.size;
        to_[static_cast<std::size_t>(k)] = group_.peer(k, piece.out) + first * sequence.size;
      }
      comm::reduce(call.dtype, call.reduce, from_, to_, count);
    });
    return;
  }
  collect(call, 0, length, [&](int member, const Piece& piece, int slot, std::int64_t first, std::int64_t) {
    return group_.peer(member, piece.in) + (slot * sequence.chunk(piece) + first) * sequence.size;
  });
}

void SharedMemoryCommunicator::run_staged(const Call& call, const Post& post) {
  const auto& sequence = call.sequence;
  const auto length = sequence.length();
  const auto part = group_.part_bytes() / (sequence.size * sequence.slots);
  TESSERA_CHECK(part > 0, "{} bytes of staging for {} ranks", group_.staging_bytes(), size());
  auto* own = group_.staging(rank());
  for (std::int64_t begin = 0; begin < length; begin += part) {
    const auto end = std::min(length, begin + part);
    const auto width = end - begin;
    sequence.pack(begin, end, own, width);
    group_.round(call.kind, post);
    if (call.kind == Kind::kAllReduce) {
      const auto [first, last] = slice(width, rank(), size());
      for (int k = 0; k < size(); ++k) {
        to_[static_cast<std::size_t>(k)] = group_.staging(k) + first * sequence.size;
        from_[static_cast<std::size_t>(k)] = to_[static_cast<std::size_t>(k)];
      }
      comm::reduce(call.dtype, call.reduce, from_, to_, last - first);
      group_.round(call.kind, post);
      sequence.unpack(begin, end, own, 0);
    } else {
      collect(call, begin, end, [&](int member, const Piece&, int slot, std::int64_t, std::int64_t at) {
        return group_.staging(member) + (slot * width + at) * sequence.size;
      });
      group_.round(call.kind, post);
    }
  }
}

void SharedMemoryCommunicator::box_exchange(const void* in, const std::vector<BoxTransfer>& sends, void* out,
                                            const std::vector<BoxTransfer>& receives, DType dtype) {
  add_box_exchange(counters_, receives, dtype, rank());
  exchange_boxes(group_, peers_, in, sends, out, receives, dtype);
}

}  // namespace tessera::comm
