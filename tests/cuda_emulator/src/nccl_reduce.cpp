#include <algorithm>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "fault.h"
#include "nccl_work.h"

namespace tessera::cuda_emulator {
namespace {

template <typename Sum>
Sum combine(Sum a, Sum b, ncclRedOp_t op) {
  switch (op) {
    case ncclMax:
      return std::max(a, b);
    case ncclMin:
      return std::min(a, b);
    case ncclProd:
      return Sum(a * b);
    default:
      return Sum(a + b);
  }
}

template <typename T, typename Sum>
void reduce_as(char* to, const std::vector<const char*>& from, std::size_t count, ncclRedOp_t op) {
  for (std::size_t i = 0; i < count; ++i) {
    Sum sum = Sum(reinterpret_cast<const T*>(from[0])[i]);
    for (std::size_t r = 1; r < from.size(); ++r) sum = combine(sum, Sum(reinterpret_cast<const T*>(from[r])[i]), op);
    if (op == ncclAvg) sum = Sum(sum / Sum(from.size()));
    reinterpret_cast<T*>(to)[i] = T(sum);
  }
}

}  // namespace

std::size_t size_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
      return 8;
    default:
      misuse("NCCL: a type that the emulator doesn't know");
      return 1;
  }
}

void reduce(char* to, const std::vector<const char*>& from, std::size_t count, ncclDataType_t type, ncclRedOp_t op) {
  switch (type) {
    case ncclInt8:
      return reduce_as<std::int8_t, std::int8_t>(to, from, count, op);
    case ncclUint8:
      return reduce_as<std::uint8_t, std::uint8_t>(to, from, count, op);
    case ncclInt32:
      return reduce_as<std::int32_t, std::int32_t>(to, from, count, op);
    case ncclUint32:
      return reduce_as<std::uint32_t, std::uint32_t>(to, from, count, op);
    case ncclInt64:
      return reduce_as<std::int64_t, std::int64_t>(to, from, count, op);
    case ncclUint64:
      return reduce_as<std::uint64_t, std::uint64_t>(to, from, count, op);
    case ncclFloat16:
      return reduce_as<__half, float>(to, from, count, op);
    case ncclBfloat16:
      return reduce_as<__nv_bfloat16, float>(to, from, count, op);
    case ncclFloat32:
      return reduce_as<float, float>(to, from, count, op);
    case ncclFloat64:
      return reduce_as<double, double>(to, from, count, op);
    default:
      fault("NCCL: a type that the emulator doesn't reduce");
  }
}

}  // namespace tessera::cuda_emulator
