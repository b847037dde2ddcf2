#pragma once

#include "partition/program.h"

namespace tessera::partition {

/// Merges what the device can do in one pass: matmul + bias + activation, chains of elementwise kernels.
void fuse_kernels(Program& program);

/// Lets updates hand out the sums of squares of the gradients that they read, where nothing clips them: what reads the
/// sums then comes after the updates.
void fuse_gradient_norm(Program& program);

/// Removes copies whose two ends may share memory.
void elide_copies(Program& program);

/// Merges gradient collectives of one kind and communicator, in the order in which they become ready, into buckets of
/// at most `bucket_bytes`, each placed where its last member is ready; and small neighbours of one kind that are ready
/// together.
void pack_collectives(Program& program, const mesh::DeviceMesh& mesh, std::int64_t bucket_bytes);

/// Moves gathers of variables forward to the begin of the layer before the one that reads them.
void prefetch_gathers(Program& program);

/// Writes the waits between the two streams: an instruction waits for the latest one of the other stream that touches
/// what it touches, one of the two writing.
void add_waits(Program& program);

/// Lets a kernel write over an input that nobody reads afterwards, where the kernel allows it.
void write_in_place(Program& program);

/// Gives every value an offset in its pool, from `base` on in the communication region. Returns the pools' sizes by
/// Pool; state is not among them.
struct PoolSizes {
  std::int64_t arena = 0, comm = 0, staging = 0;
};
PoolSizes allocate(Program& program, std::int64_t comm_base);

}  // namespace tessera::partition
