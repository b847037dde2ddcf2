// The toolkit's bf16 type and its host functions, then the functions that it declares for nvcc only.
#pragma once
#include_next <cuda_bf16.h>

#include "cuda_runtime.h"

inline __nv_bfloat16 __hfma(__nv_bfloat16 a, __nv_bfloat16 b, __nv_bfloat16 c) {
  return __float2bfloat16(std::fma(__bfloat162float(a), __bfloat162float(b), __bfloat162float(c)));
}
inline __nv_bfloat162 __hfma2(__nv_bfloat162 a, __nv_bfloat162 b, __nv_bfloat162 c) {
  return __halves2bfloat162(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y));
}
inline __nv_bfloat16 hexp(__nv_bfloat16 a) { return __float2bfloat16(std::exp(__bfloat162float(a))); }
inline __nv_bfloat16 htanh(__nv_bfloat16 a) { return __float2bfloat16(std::tanh(__bfloat162float(a))); }
inline __nv_bfloat16 hrsqrt(__nv_bfloat16 a) { return __float2bfloat16(1.0f / std::sqrt(__bfloat162float(a))); }
