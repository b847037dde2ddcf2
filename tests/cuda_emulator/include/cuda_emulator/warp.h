// Operations between the lanes of a warp. Every lane of the mask has to come to the same line.
#pragma once
#include <cstring>
#include <type_traits>

#include "cuda_emulator/block.h"

namespace tessera::cuda_emulator {

enum class WarpOp { kShuffle, kBallot, kSync, kReduceAdd, kReduceMax, kReduceMin, kReduceAnd, kReduceOr, kReduceXor };

/// Returns, when every lane of `mask` has come to the same operation, this lane's result. `source`: the lane that a
/// shuffle reads.
std::uint64_t warp_collective(WarpOp op, unsigned mask, std::uint64_t value, unsigned source, Where where);
unsigned lane_index();
unsigned active_mask();

template <typename T>
T shuffle(unsigned mask, T value, unsigned source, Where where) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = warp_collective(WarpOp::kShuffle, mask, bits, source, where);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

template <typename T>
T warp_reduce(WarpOp op, unsigned mask, T value, Where where) {
  static_assert(std::is_integral_v<T> && sizeof(T) == 4);
  return T(warp_collective(op, mask, std::uint64_t(std::int64_t(value)), 0, where));
}

}  // namespace tessera::cuda_emulator

inline void __syncwarp(unsigned mask = ~0u, CUDA_EMULATOR_WHERE) {
  tessera::cuda_emulator::warp_collective(tessera::cuda_emulator::WarpOp::kSync, mask, 0, 0, where);
}
inline unsigned __activemask() { return tessera::cuda_emulator::active_mask(); }

// A lane whose source lies outside its segment of `width` lanes keeps its own value.
template <typename T>
T __shfl_sync(unsigned mask, T value, int source, int width = warpSize, CUDA_EMULATOR_WHERE) {
  const unsigned lane = tessera::cuda_emulator::lane_index(), segment = lane & ~(unsigned(width) - 1);
  return tessera::cuda_emulator::shuffle(mask, value, segment | (unsigned(source) & (unsigned(width) - 1)), where);
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = warpSize, CUDA_EMULATOR_WHERE) {
  const unsigned lane = tessera::cuda_emulator::lane_index(), segment = lane & ~(unsigned(width) - 1);
  const unsigned source = lane ^ unsigned(bits);
  return tessera::cuda_emulator::shuffle(mask, value, source < segment + unsigned(width) ? source : lane, where);
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = warpSize, CUDA_EMULATOR_WHERE) {
  const unsigned lane = tessera::cuda_emulator::lane_index(), place = lane & (unsigned(width) - 1);
  return tessera::cuda_emulator::shuffle(mask, value, place + delta < unsigned(width) ? lane + delta : lane, where);
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = warpSize, CUDA_EMULATOR_WHERE) {
  const unsigned lane = tessera::cuda_emulator::lane_index(), place = lane & (unsigned(width) - 1);
  return tessera::cuda_emulator::shuffle(mask, value, place >= delta ? lane - delta : lane, where);
}

inline unsigned __ballot_sync(unsigned mask, int p, CUDA_EMULATOR_WHERE) {
  using namespace tessera::cuda_emulator;
  return unsigned(warp_collective(WarpOp::kBallot, mask, p != 0, 0, where));
}
inline int __any_sync(unsigned mask, int p, CUDA_EMULATOR_WHERE) { return __ballot_sync(mask, p, where) != 0; }
inline int __all_sync(unsigned mask, int p, CUDA_EMULATOR_WHERE) { return __ballot_sync(mask, !p, where) == 0; }

template <typename T>
T __reduce_add_sync(unsigned mask, T value, CUDA_EMULATOR_WHERE) {
  return tessera::cuda_emulator::warp_reduce(tessera::cuda_emulator::WarpOp::kReduceAdd, mask, value, where);
}
template <typename T>
T __reduce_max_sync(unsigned mask, T value, CUDA_EMULATOR_WHERE) {
  return tessera::cuda_emulator::warp_reduce(tessera::cuda_emulator::WarpOp::kReduceMax, mask, value, where);
}
template <typename T>
T __reduce_min_sync(unsigned mask, T value, CUDA_EMULATOR_WHERE) {
  return tessera::cuda_emulator::warp_reduce(tessera::cuda_emulator::WarpOp::kReduceMin, mask, value, where);
}
inline unsigned __reduce_and_sync(unsigned mask, unsigned value, CUDA_EMULATOR_WHERE) {
  return tessera::cuda_emulator::warp_reduce(tessera::cuda_emulator::WarpOp::kReduceAnd, mask, value, where);
}
inline unsigned __reduce_or_sync(unsigned mask, unsigned value, CUDA_EMULATOR_WHERE) {
  return tessera::cuda_emulator::warp_reduce(tessera::cuda_emulator::WarpOp::kReduceOr, mask, value, where);
}
inline unsigned __reduce_xor_sync(unsigned mask, unsigned value, CUDA_EMULATOR_WHERE) {
  return tessera::cuda_emulator::warp_reduce(tessera::cuda_emulator::WarpOp::kReduceXor, mask, value, where);
}
