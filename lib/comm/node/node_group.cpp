#include "comm/node/node_group.h"

#include <functional>
#include <utility>

#include "comm/pieces.h"
#include "core/error.h"

namespace tessera::comm {
namespace {

constexpr int kLookMilliseconds = 20;
constexpr int kCountBits = 40;

std::string describe(std::uint64_t signature) {
  const auto kind = static_cast<Kind>(signature >> 56);
  if (kind == Kind::kBarrier) return name_of(kind);
  const auto dtype = to_string(static_cast<DType>(signature >> 48 & 0xFF));
  if (kind == Kind::kBoxExchange) return fmt::format("{} of {}", name_of(kind), dtype);
  const auto* reduce = static_cast<Reduce>(signature >> kCountBits & 0xFF) == Reduce::kMax ? "maximum, " : "";
  return fmt::format("{} of {} {} elements{}{}", name_of(kind), signature & ((1ULL << kCountBits) - 1), dtype,
                     *reduce == 0 ? "" : ", ", reduce);
}

}  // namespace

std::uint64_t signature(Kind kind, DType dtype, Reduce reduce, std::int64_t count) {
  return static_cast<std::uint64_t>(kind) << 56 | static_cast<std::uint64_t>(dtype) << 48 |
         static_cast<std::uint64_t>(reduce) << kCountBits |
         (static_cast<std::uint64_t>(count) & ((1ULL << kCountBits) - 1));
}

NodeGroup::NodeGroup(Member* members, int index, std::vector<int> node_ranks, std::vector<int> world_ranks,
                     const NodeMemory& memory, const Watch& watch, bool crowded)
    : members_(members),
      index_(index),
      node_ranks_(std::move(node_ranks)),
      world_ranks_(std::move(world_ranks)),
      memory_(memory),
      watch_(watch),
      spin_(!crowded) {
  missing_.reserve(world_ranks_.size());
}

void NodeGroup::round(Kind kind, const Post& post) {
  ++round_;
  auto& own = members_[index_];
  own.post[round_ % 2] = post;
  own.arrived.raise(round_);
  wait(kind);
  for (int member = 0; member < size(); ++member) {
    if (this->post(member).signature != post.signature) fail_mismatch(member);
  }
}

void NodeGroup::wait(Kind kind) {
  for (int member = 0; member < size(); ++member) {
    auto& arrived = members_[member].arrived;
    if (arrived.wait_briefly(round_, spin_)) continue;
    const auto start = std::chrono::steady_clock::now();
    while (!arrived.sleep(round_, kLookMilliseconds)) {
      missing_.clear();
      int dead = -1;
      for (int other = 0; other < size(); ++other) {
        const int rank = world_ranks_[static_cast<std::size_t>(other)];
        const bool alive = watch_.alive(rank);  // before the flag: it may arrive and end
        if (members_[other].arrived.reached(round_)) continue;
        missing_.push_back(rank);
        if (!alive) dead = rank;
      }
      const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
      watch_.look(name_of(kind), waited.count(), missing_, dead);
    }
  }
}

void NodeGroup::fail_mismatch(int member) const {
  const auto rank = [&](int m) { return world_ranks_[static_cast<std::size_t>(m)]; };
  const auto kind = static_cast<Kind>(post(index_).signature >> 56);
  fail(ExitCode::kInternal,
       "{}: {} meets another call of {}: {} here, {} there; all ranks must make the same calls in one order",
       watch_.name_of(rank(index_)), watch_.doing(name_of(kind)), watch_.name_of(rank(member)),
       describe(post(index_).signature), describe(post(member).signature));
}

bool NodeGroup::in_region(const void* data, std::int64_t bytes) const {
  const auto* begin = shared(index_).region;
  const auto* from = bytes_of(data);
  const std::less_equal<const std::byte*> not_after;
  return memory_.region_bytes > 0 && not_after(begin, from) && not_after(from + bytes, begin + memory_.region_bytes);
}

std::int64_t NodeGroup::region_offset(const void* data) const { return bytes_of(data) - shared(index_).region; }

std::byte* NodeGroup::peer(int member, const void* own) const { return shared(member).region + region_offset(own); }

}  // namespace tessera::comm
