#pragma once

#include "comm/communicator.h"

namespace tessera::comm {

/// Every collective x dtype x size x place of the buffers on these groups, against a naive result that each rank
/// computes for itself. Collective over the world.
void check_collectives(World& world);

/// Random boxes of random tensors between all members, several a pair, against the indices they come from.
void check_box_exchange(World& world);

/// Sums of values that round are the same bits on all ranks, twice; and in rank order where `in_rank_order`.
void check_bits(World& world, bool in_rank_order);

/// A NaN is the maximum. (Not NCCL's, which is that of the numbers.)
void check_maximum_of_nan(World& world);

void check_counters(World& world);
void check_many_communicators(World& world);
void check_control_plane(World& world);

/// Random calls one after another, so that a rank runs ahead of the others.
void check_in_a_hurry(World& world);

/// World ranks of the own group when groups of `size` are neighbours at distance `stride` (an axis of a mesh), perhaps
/// reversed.
std::vector<std::int64_t> axis_group(const World& world, int size, int stride, bool reversed = false);

}  // namespace tessera::comm
