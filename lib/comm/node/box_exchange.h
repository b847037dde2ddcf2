#pragma once

#include <vector>

#include "comm/node/node_group.h"

namespace tessera::comm {

/// The part of a box exchange between the members of a group on one node. `peers`: by member, the number that the
/// transfers know it by; other peers' transfers are left alone.
void exchange_boxes(NodeGroup& group, const std::vector<int>& peers, const void* in,
                    const std::vector<BoxTransfer>& sends, void* out, const std::vector<BoxTransfer>& receives,
                    DType dtype);

}  // namespace tessera::comm
