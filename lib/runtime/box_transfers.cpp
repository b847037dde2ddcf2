#include "runtime/box_transfers.h"

#include <algorithm>

#include "core/error.h"

namespace tessera::runtime {
namespace {

Box owned_box(const mesh::DeviceMesh& mesh, std::int64_t rank, const Shape& shape, const mesh::Layout& layout) {
  const auto boxes = mesh::owned(layout, mesh, mesh.coordinates(rank), shape);
  TESSERA_CHECK(boxes.size() == 1, "{} boxes of one rank", boxes.size());
  return boxes.front();
}

Box relative_to(Box box, const Box& origin) {
  for (std::size_t d = 0; d < box.start.size(); ++d) box.start[d] -= origin.start[d];
  return box;
}

/// A box and the members of the group that hold it.
struct Holding {
  Box box;
  std::vector<int> holders;  // ascending

  int source_for(int receiver) const {
    const auto next = std::lower_bound(holders.begin(), holders.end(), receiver);
    if (next != holders.end() && *next == receiver) return receiver;
    const auto others_before = receiver - (next - holders.begin());
    return holders[static_cast<std::size_t>(others_before) % holders.size()];
  }
};

}  // namespace

BoxTransfers box_transfers(const mesh::DeviceMesh& mesh, const std::vector<std::int64_t>& group, std::int64_t rank,
                           const Shape& shape, const mesh::Layout& from, const mesh::Layout& to) {
  std::vector<Holding> holdings;
  int self = -1;
  for (int member = 0; member < static_cast<int>(group.size()); ++member) {
    const auto member_rank = group[static_cast<std::size_t>(member)];
    if (member_rank == rank) self = member;
    const auto box = owned_box(mesh, member_rank, shape, from);
    const auto known = std::find_if(holdings.begin(), holdings.end(), [&](const Holding& h) { return h.box == box; });
    if (known != holdings.end())
      known->holders.push_back(member);
    else
      holdings.push_back({box, {member}});
  }
  TESSERA_CHECK(self >= 0, "rank {} is not in its own group", rank);

  const auto own_from = owned_box(mesh, rank, shape, from);
  const auto own_to = owned_box(mesh, rank, shape, to);
  BoxTransfers transfers;
  for (int receiver = 0; receiver < static_cast<int>(group.size()); ++receiver) {
    const auto wanted = owned_box(mesh, group[static_cast<std::size_t>(receiver)], shape, to);
    std::int64_t covered = 0;
    for (const auto& holding : holdings) {
      const auto common = intersection(holding.box, wanted);
      if (empty(common)) continue;
      covered += elements(common.size);
      const int source = holding.source_for(receiver);
      if (source == self) transfers.sends.push_back({receiver, own_from.size, relative_to(common, own_from)});
      if (receiver == self) transfers.receives.push_back({source, own_to.size, relative_to(common, own_to)});
    }
    TESSERA_CHECK(covered == elements(wanted.size), "the group holds {} of the {} elements of {}", covered,
                  elements(wanted.size), to_string(wanted));
  }
  return transfers;
}

}  // namespace tessera::runtime
