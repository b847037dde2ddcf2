#include "comm/reduce.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"

namespace tessera::comm {
namespace {

constexpr std::int64_t kBlock = 2048;  // elements: the accumulator stays in the first-level cache

template <Reduce op, typename T>
T combine(T a, T b) {
  if constexpr (op == Reduce::kSum) {
    return a + b;
  } else {
    return a < b || b != b ? b : a;
  }
}

template <Reduce op, typename T>
void reduce_blocks(const std::vector<const std::byte*>& from, const std::vector<std::byte*>& to, std::int64_t count) {
  alignas(64) T sum[kBlock];
  for (std::int64_t start = 0; start < count; start += kBlock) {
    const auto block = std::min(kBlock, count - start);
    const auto bytes = static_cast<std::size_t>(block) * sizeof(T);
    const auto source = [&](std::size_t k) { return reinterpret_cast<const T*>(from[k]) + start; };
    if (from.size() == 1) {
      std::memcpy(sum, source(0), bytes);
    } else {
      const T* a = source(0);
      const T* b = source(1);
#pragma omp simd
      for (std::int64_t i = 0; i < block; ++i) sum[i] = combine<op>(a[i], b[i]);
    }
    for (std::size_t k = 2; k < from.size(); ++k) {
      const T* a = source(k);
#pragma omp simd
      for (std::int64_t i = 0; i < block; ++i) sum[i] = combine<op>(sum[i], a[i]);
    }
    for (std::byte* destination : to) std::memcpy(reinterpret_cast<T*>(destination) + start, sum, bytes);
  }
}

template <typename T>
void reduce_as(Reduce op, const std::vector<const std::byte*>& from, const std::vector<std::byte*>& to,
               std::int64_t count) {
  if (op == Reduce::kSum) {
    reduce_blocks<Reduce::kSum, T>(from, to, count);
  } else {
    reduce_blocks<Reduce::kMax, T>(from, to, count);
  }
}

}  // namespace

void reduce(DType dtype, Reduce op, const std::vector<const std::byte*>& from, const std::vector<std::byte*>& to,
            std::int64_t count) {
  switch (dtype) {
    case DType::kF32:
      return reduce_as<float>(op, from, to, count);
    case DType::kF64:
      return reduce_as<double>(op, from, to, count);
    case DType::kI32:
      return reduce_as<std::int32_t>(op, from, to, count);
    case DType::kI64:
      return reduce_as<std::int64_t>(op, from, to, count);
    default:
      fail(ExitCode::kInternal, "no reduction of {} values: cast them to float32 first", to_string(dtype));
  }
}

}  // namespace tessera::comm
