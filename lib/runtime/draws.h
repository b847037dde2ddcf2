#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "core/philox.h"
#include "core/shape.h"

namespace tessera::runtime {

/// (0, 1), never 0: a logarithm follows.
inline double open_uniform(std::uint32_t bits) { return (bits + 0.5) * 0x1p-32; }

/// A standard normal number from two words: Box and Muller 1958.
inline double normal(std::uint32_t bits_1, std::uint32_t bits_2) {
  return std::sqrt(-2 * std::log(open_uniform(bits_1))) * std::cos(2 * std::numbers::pi * open_uniform(bits_2));
}

/// The bits of one element after the other: four neighbours come from one call.
class Bits {
 public:
  Bits(std::uint64_t key, std::uint64_t step) : key_(key), step_(step) {}

  std::uint32_t of(std::uint64_t element) {
    if (element / 4 != quad_) {
      quad_ = element / 4;
      words_ = philox(key_, quad_, step_);
    }
    return words_[element % 4];
  }

 private:
  std::uint64_t key_, step_, quad_ = ~std::uint64_t{0};
  std::array<std::uint32_t, 4> words_{};
};

/// Row-major index in a tensor with these strides of the k-th element of a box.
inline std::int64_t global_index(const Box& box, const Shape& strides, std::int64_t k) {
  std::int64_t index = 0;
  for (std::size_t d = box.size.size(); d-- > 0;) {
    index += (box.start[d] + k % box.size[d]) * strides[d];
    k /= box.size[d];
  }
  return index;
}

}  // namespace tessera::runtime
