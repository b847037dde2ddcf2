// The toolkit's f16 type and its host functions, then the functions that it declares for nvcc only.
#pragma once
#include_next <cuda_fp16.h>

#include "cuda_runtime.h"

inline __half __hfma(__half a, __half b, __half c) {
  return __float2half(std::fma(__half2float(a), __half2float(b), __half2float(c)));
}
inline __half2 __hfma2(__half2 a, __half2 b, __half2 c) {
  return __halves2half2(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y));
}
inline __half hexp(__half a) { return __float2half(std::exp(__half2float(a))); }
inline __half htanh(__half a) { return __float2half(std::tanh(__half2float(a))); }
inline __half hrsqrt(__half a) { return __float2half(1.0f / std::sqrt(__half2float(a))); }
