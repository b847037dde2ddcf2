#pragma once

#include <cstdint>

namespace tessera::graph {

/// The distribution of a variable's first values, all of Keras's initialisers brought to it
/// (lib/layers/initializers.h). Value of an element: Philox bits of its global index, so it depends on no mesh.
struct Initializer {
  enum class Kind : std::uint8_t { kConstant, kUniform, kNormal, kTruncatedNormal, kIdentity, kOrthogonal };
  Kind kind = Kind::kConstant;
  double value = 0;             // kConstant: the value; kIdentity, kOrthogonal: the gain
  double low = 0, high = 0;     // kUniform
  double mean = 0, stddev = 0;  // kNormal; kTruncatedNormal: before the cut at 2 sigma
  std::uint64_t key = 0;        // philox_key(seed, "init", path)

  bool operator==(const Initializer&) const = default;
};

}  // namespace tessera::graph
