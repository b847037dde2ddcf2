#pragma once

#include <cstdint>
#include <cuda_runtime.h>

// Included by .cu files only.
namespace tessera::device::cuda {

/// Elements that a thread has in hand.
struct Four {
  float v[4];
};

/// Elements `at` to `at + count`; what is beyond is 0. kAligned: the tensor is aligned to 16 bytes.
template <bool kAligned>
__device__ Four load_four(const float* data, std::int64_t at, int count) {
  if (kAligned && count == 4) {
    const float4 four = *reinterpret_cast<const float4*>(data + at);
    return {{four.x, four.y, four.z, four.w}};
  }
  Four value{};
  for (int j = 0; j < 4; ++j)
    if (j < count) value.v[j] = data[at + j];
  return value;
}

template <bool kAligned>
__device__ void store_four(float* data, std::int64_t at, int count, const Four& value) {
  if (kAligned && count == 4) {
    *reinterpret_cast<float4*>(data + at) = make_float4(value.v[0], value.v[1], value.v[2], value.v[3]);
    return;
  }
  for (int j = 0; j < 4; ++j)
    if (j < count) data[at + j] = value.v[j];
}

}  // namespace tessera::device::cuda
