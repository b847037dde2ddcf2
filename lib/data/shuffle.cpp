#include "data/shuffle.h"

#include <bit>
#include <string>

#include "core/error.h"
#include "core/philox.h"

namespace tessera::data {
namespace {

// MurmurHash3's 64-bit finalizer.
std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdULL;
  x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53ULL;
  return x ^ (x >> 33);
}

std::uint64_t ones(int bits) { return (std::uint64_t{1} << bits) - 1; }

}  // namespace

Permutation::Permutation(std::int64_t n, std::uint64_t key) : n_(static_cast<std::uint64_t>(n)), keys_{} {
  TESSERA_CHECK(n > 0, "a permutation of {} samples", n);
  const auto bits = static_cast<int>(std::bit_width(n_ - 1));
  right_bits_ = bits / 2;
  right_mask_ = ones(right_bits_);
  left_mask_ = ones(bits - right_bits_);
  for (int round = 0; round < kRounds; round += 4) {
    const auto words = philox(key, static_cast<std::uint64_t>(round), 0);
    for (int i = 0; i < 4; ++i) keys_[round + i] = mix(key ^ words[i]);
  }
}

// Halves of unequal width: each round changes one by a function of the other, which can be undone.
std::uint64_t Permutation::encrypt(std::uint64_t x) const {
  std::uint64_t left = x >> right_bits_, right = x & right_mask_;
  for (int round = 0; round < kRounds; round += 2) {
    left ^= mix(right + keys_[round]) & left_mask_;
    right ^= mix(left + keys_[round + 1]) & right_mask_;
  }
  return left << right_bits_ | right;
}

std::int64_t Permutation::operator()(std::int64_t position) const {
  auto x = static_cast<std::uint64_t>(position);
  do {
    x = encrypt(x);
  } while (x >= n_);
  return static_cast<std::int64_t>(x);
}

Permutation shuffled(std::int64_t samples, std::uint64_t seed, std::int64_t pass) {
  return {samples, philox_key(seed, "shuffle", std::to_string(pass))};
}

}  // namespace tessera::data
