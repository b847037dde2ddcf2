#pragma once

#include <cstdint>
#include <cuda_runtime.h>

// Sums and maxima over the threads of a team: 2^k lanes of a warp that follow each other, or a whole block of more than
// one warp. Every thread gets the result, of the same bits; all threads of the warp, or of the block, come. Included by
// .cu files only.
namespace tessera::device::cuda {

/// The largest number of a row and the sum of exp(x - max).
struct MaxSum {
  float max, sum;
};

/// Two sums.
template <class T>
struct TwoOf {
  T a, b;
};
using Two = TwoOf<double>;

/// A number and the column where it stood.
struct Place {
  float value;
  std::int32_t column;
};

template <class T>
__device__ TwoOf<T> operator+(const TwoOf<T>& x, const TwoOf<T>& y) {
  return {x.a + y.a, x.b + y.b};
}

/// The larger of two; NaN if one is.
inline __device__ float larger(float a, float b) { return a < b || b != b ? b : a; }

/// Of two parts of a row, in either order.
inline __device__ MaxSum merge(const MaxSum& a, const MaxSum& b) {
  const bool swap = a.max < b.max || b.max != b.max;
  const MaxSum high = swap ? b : a, low = swap ? a : b;
  if (low.max == high.max || low.max == -INFINITY) return {high.max, high.sum + low.sum};
  return {high.max, high.sum + low.sum * expf(low.max - high.max)};
}

template <class T>
__device__ T from_lane(T v, int distance) {
  return __shfl_xor_sync(0xFFFFFFFFU, v, distance);
}
inline __device__ MaxSum from_lane(const MaxSum& v, int distance) {
  return {from_lane(v.max, distance), from_lane(v.sum, distance)};
}
template <class T>
__device__ TwoOf<T> from_lane(const TwoOf<T>& v, int distance) {
  return {from_lane(v.a, distance), from_lane(v.b, distance)};
}
inline __device__ Place from_lane(const Place& v, int distance) {
  return {from_lane(v.value, distance), from_lane(v.column, distance)};
}

/// f is commutative to the bit.
template <int kLanes, class T, class F>
__device__ T team_reduce(T v, F f) {
  if constexpr (kLanes <= 32) {
#pragma unroll
    for (int distance = kLanes / 2; distance > 0; distance /= 2) v = f(v, from_lane(v, distance));
    return v;
  } else {
    __shared__ T of_warps[kLanes / 32];
    v = team_reduce<32>(v, f);
    __syncthreads();  // all have read what an earlier call left
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = v;
    __syncthreads();
    return team_reduce<kLanes / 32>(of_warps[threadIdx.x % (kLanes / 32)], f);
  }
}

template <int kLanes, class T>
__device__ T team_sum(T v) {
  return team_reduce<kLanes>(v, [](const T& a, const T& b) { return a + b; });
}

}  // namespace tessera::device::cuda
