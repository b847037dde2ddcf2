#pragma once

#include <array>
#include <cstdint>

namespace tessera::data {

/// A random order of n samples in O(1) memory: a Feistel network on the smallest power of two that holds n, walked
/// until it lands below n (Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002). It depends on n
/// and the key alone, so it is the same on every mesh.
class Permutation {
 public:
  Permutation(std::int64_t n, std::uint64_t key);

  /// The sample at a position, both in [0, n).
  std::int64_t operator()(std::int64_t position) const;

 private:
  static constexpr int kRounds = 8;
  std::uint64_t encrypt(std::uint64_t x) const;

  std::uint64_t n_;
  int right_bits_;
  std::uint64_t left_mask_, right_mask_;
  std::array<std::uint64_t, kRounds> keys_;
};

/// The order of one pass over a dataset.
Permutation shuffled(std::int64_t samples, std::uint64_t seed, std::int64_t pass);

}  // namespace tessera::data
