#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <limits>
#include <type_traits>

#include "device/cuda/kernels.h"
#include "device/cuda/launch.h"

namespace tessera::device::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWidth = 4;  // elements of a thread at a time

/// A truth value, as it lies in memory.
struct Bool {
  std::uint8_t value;
};

template <typename T>
constexpr T kLow = std::numeric_limits<T>::min();
template <typename T>
constexpr T kHigh = std::numeric_limits<T>::max();

/// Towards zero; what does not fit becomes the nearest that does, NaN becomes 0.
template <typename To, typename From>
__device__ To to_integer(From x) {
  if constexpr (std::is_floating_point_v<From>) {
    if (!(x > static_cast<From>(kLow<To>))) return x != x ? To{0} : kLow<To>;
    if (x >= static_cast<From>(kHigh<To>)) return kHigh<To>;
  }
  return static_cast<To>(x);
}

template <typename To, typename From>
__device__ To convert(From x) {
  if constexpr (std::is_same_v<From, To>) {
    return x;
  } else if constexpr (std::is_same_v<From, __nv_bfloat16>) {
    return convert<To>(__bfloat162float(x));
  } else if constexpr (std::is_same_v<From, __half>) {
    return convert<To>(__half2float(x));
  } else if constexpr (std::is_same_v<From, Bool>) {
    return convert<To>(static_cast<std::uint8_t>(x.value != 0));
  } else if constexpr (std::is_same_v<To, __nv_bfloat16>) {
    return __float2bfloat16_rn(static_cast<float>(x));
  } else if constexpr (std::is_same_v<To, __half>) {
    return __float2half_rn(static_cast<float>(x));
  } else if constexpr (std::is_same_v<To, Bool>) {
    return {static_cast<std::uint8_t>(x != 0)};
  } else if constexpr (std::is_floating_point_v<To>) {
    return static_cast<To>(x);
  } else {
    return to_integer<To>(x);
  }
}

template <typename T>
struct alignas(sizeof(T) * kWidth) Pack {
  T v[kWidth];
};

/// kAligned: both tensors are aligned to packs.
template <typename To, typename From, bool kAligned>
__global__ void __launch_bounds__(kThreads) cast(const From* __restrict__ x, To* __restrict__ y, std::int64_t n) {
  const auto stride = threads_of_grid() * kWidth;
  for (auto at = thread_of_grid() * kWidth; at < n; at += stride) {
    if (kAligned && n - at >= kWidth) {
      const auto from = *reinterpret_cast<const Pack<From>*>(x + at);
      Pack<To> to;
      for (int j = 0; j < kWidth; ++j) to.v[j] = convert<To>(from.v[j]);
      *reinterpret_cast<Pack<To>*>(y + at) = to;
      continue;
    }
    for (int j = 0; j < kWidth; ++j)
      if (j < n - at) y[at + j] = convert<To>(x[at + j]);
  }
}

template <typename T>
bool is_aligned(const T* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) % sizeof(Pack<T>) == 0;
}

/// f(a pointer to the C++ type that stands for a dtype).
template <typename F>
auto with_type(DType dtype, const F& f) {
  switch (dtype) {
    case DType::kF32:
      return f(static_cast<float*>(nullptr));
    case DType::kF64:
      return f(static_cast<double*>(nullptr));
    case DType::kBF16:
      return f(static_cast<__nv_bfloat16*>(nullptr));
    case DType::kF16:
      return f(static_cast<__half*>(nullptr));
    case DType::kI32:
      return f(static_cast<std::int32_t*>(nullptr));
    case DType::kI64:
      return f(static_cast<std::int64_t*>(nullptr));
    case DType::kU8:
      return f(static_cast<std::uint8_t*>(nullptr));
    case DType::kBool:
      break;
  }
  return f(static_cast<Bool*>(nullptr));
}

template <typename To, typename From>
std::unique_ptr<Kernel> cast_kernel(const Context& context, Stream stream, std::int64_t n) {
  return kernel_of(context, stream, [n](const Args& args) {
    const auto* x = args.in<From>(0);
    auto* y = args.out<To>(0);
    const auto kernel = is_aligned(x) && is_aligned(y) ? cast<To, From, true> : cast<To, From, false>;
    launch(args.stream, {blocks_for(n, kThreads * kWidth), kThreads}, kernel, x, y, n);
  });
}

}  // namespace

std::unique_ptr<Kernel> make_cast(const KernelSpec& spec, Context& context, Stream stream) {
  require_counts(spec, 1, 1);
  require(spec, spec.inputs[0].shape == spec.outputs[0].shape, "the shapes differ");
  const auto n = elements(spec.inputs[0].shape);
  return with_type(spec.inputs[0].dtype, [&](auto* from) {
    return with_type(spec.outputs[0].dtype, [&](auto* to) {
      return cast_kernel<std::remove_pointer_t<decltype(to)>, std::remove_pointer_t<decltype(from)>>(context, stream,
                                                                                                     n);
    });
  });
}

}  // namespace tessera::device::cuda
