#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace tessera {

/// 64-bit hash of (seed, purpose, call path). purpose: "init", "dropout", "shuffle"; call path: a variable's or layer's
/// path, with "#k" for the k-th application of a layer. FNV-1a over the bytes with a final mix (splitmix64).
std::uint64_t philox_key(std::uint64_t seed, std::string_view purpose, std::string_view call_path);

/// Philox4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
/// counter = (element index / 4, step); word = index % 4. The element index is row-major in the unpadded global tensor
/// of the whole batch, so the bits depend on no mesh. constexpr: kernels of a GPU call it too.
constexpr std::array<std::uint32_t, 4> philox(std::uint64_t key, std::uint64_t quad, std::uint64_t step) {
  std::array<std::uint32_t, 4> c{static_cast<std::uint32_t>(quad), static_cast<std::uint32_t>(quad >> 32),
                                 static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(step >> 32)};
  auto k0 = static_cast<std::uint32_t>(key);
  auto k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53} * c[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<std::uint32_t>(p0)};
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  return c;
}

/// The 32 random bits of one element.
constexpr std::uint32_t philox_bits(std::uint64_t key, std::uint64_t element, std::uint64_t step) {
  return philox(key, element / 4, step)[element % 4];
}

/// The bits of consecutive elements from `element` on, several at a time.
void philox_fill(std::uint64_t key, std::uint64_t element, std::uint64_t step, std::span<std::uint32_t> bits);

/// [0, 1) from 32 bits, by the upper 24: exact in float32.
constexpr float uniform_01(std::uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24F; }

}  // namespace tessera
