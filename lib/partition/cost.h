#pragma once

#include <cstdint>
#include <vector>

#include "core/dtype.h"
#include "mesh/device_mesh.h"
#include "partition/hardware.h"
#include "partition/reshard.h"

namespace tessera::partition {

/// What the solver compares: penalties first, then femtoseconds, in one number. 80 bits of time hold 38 years, so
/// neither a sum of node costs nor a price a byte for memory overflows.
__extension__ typedef __int128 Cost;
inline constexpr Cost kPenalty = Cost{1} << 80;
/// Not possible. Some million of these may be added up.
inline constexpr Cost kForbidden = Cost{1} << 104;

/// The time part in femtoseconds, at most the largest int64 (2.5 hours).
std::int64_t time_of(Cost cost);
std::int64_t penalty_of(Cost cost);

/// The sum of two times, at most the largest int64.
std::int64_t add_times(std::int64_t a, std::int64_t b);

/// Prices of what a rank does on one kind of machine. Whole femtoseconds, so that all ranks and machines agree.
class CostModel {
 public:
  CostModel(const mesh::DeviceMesh& mesh, const Hardware& hardware);

  std::int64_t compute(double flops, DType dtype) const;
  std::int64_t memory(double bytes) const;
  std::int64_t kernel() const { return kernel_; }

  /// One step between neighbours of these axes and one byte a rank receives over them. An axis is as slow as its
  /// slowest link: it is remote if some of its groups lie on more than one node.
  Hardware::Link link(const std::vector<mesh::Axis>& axes) const;
  std::int64_t latency(const std::vector<mesh::Axis>& axes) const;
  std::int64_t transfer(const std::vector<mesh::Axis>& axes, double bytes) const;

  /// A move of a tensor of `bytes` globally, with the packing where a dimension that isn't the leading one is cut or
  /// joined. A bucketed gradient pays no latency, and its kernel writes in the order that a reduce-scatter wants.
  std::int64_t move(const Move& move, std::int64_t bytes, bool bucketed) const;
  std::int64_t moves(const std::vector<Move>& moves, std::size_t first, std::int64_t bytes, bool bucketed) const;

 private:
  const mesh::DeviceMesh& mesh_;
  const Hardware& hardware_;
  std::vector<bool> remote_;  // by axis
  std::int64_t kernel_ = 0;
};

}  // namespace tessera::partition
