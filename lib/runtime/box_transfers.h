#pragma once

#include <cstdint>
#include <vector>

#include "comm/communicator.h"
#include "mesh/layout.h"

namespace tessera::runtime {

/// What one rank sends and receives when a tensor goes from one layout to another, among the ranks of `group` (world
/// ranks; BoxTransfer::peer is an index into it). Every rank of the group must have its whole new box somewhere in the
/// group. Where several ranks hold a box, a receiver takes its own copy, and those without one take turns among the
/// holders.
struct BoxTransfers {
  std::vector<comm::BoxTransfer> sends, receives;
};
BoxTransfers box_transfers(const mesh::DeviceMesh& mesh, const std::vector<std::int64_t>& group, std::int64_t rank,
                           const Shape& shape, const mesh::Layout& from, const mesh::Layout& to);

}  // namespace tessera::runtime
