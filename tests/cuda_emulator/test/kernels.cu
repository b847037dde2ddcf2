#include "kernels.h"

namespace tessera::cuda_emulator {
namespace {

constexpr unsigned kFullMask = 0xffffffffu;
__constant__ float kOffsets[2] = {0.0f, 255.0f};

template <typename... P, typename... A>
cudaError_t launch(cudaStream_t stream, int blocks, int threads, std::size_t shared, void (*kernel)(P...), A... args) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(unsigned(blocks));
  config.blockDim = dim3(unsigned(threads));
  config.dynamicSmemBytes = shared;
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, P(args)...);
}

__device__ float* dynamic_floats() { return static_cast<float*>(dynamic_shared_memory()); }

template <Mistake kMistake>
__global__ void reverse_kernel(float* x, const float* host, int n) {
  __shared__ float reversed[256];
  const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (kMistake == Mistake::kUnwrittenShared && i == 0) x[1] = reversed[255];
  if (kMistake == Mistake::kSharedPastTheEnd) dynamic_floats()[threadIdx.x] = 1;
  if (kMistake == Mistake::kEarlyReturn && threadIdx.x == 7) return;
  __syncthreads();
  reversed[255 - threadIdx.x] = kOffsets[0] + float(threadIdx.x);
  if (kMistake != Mistake::kNoBarrier) __syncthreads();
  if (kMistake == Mistake::kBarrierInBranch && threadIdx.x < 32) {
    __syncthreads();
    return;
  }
  float v = reversed[threadIdx.x];
  if (kMistake == Mistake::kHalfWarpShuffle && threadIdx.x % 32 < 16) v = __shfl_xor_sync(kFullMask, v, 1);
  if (kMistake == Mistake::kHostPointer) v += host[0];
  if (i < n && kMistake != Mistake::kMisaligned) x[i] = v;
  if (kMistake == Mistake::kPastTheEnd && i == n - 1) x[n] = v;
  if (kMistake == Mistake::kFarPastTheEnd && i == n - 1) x[n + 100000] = v;
  if (kMistake == Mistake::kBlocksShareASum && threadIdx.x == 0) x[0] += v;
  if (kMistake == Mistake::kWriteOfRead) {
    if (threadIdx.x == 0) v += host[0];
    if (threadIdx.x == 0 && blockIdx.x == 1) const_cast<float*>(host)[0] = v;
  }
  if (kMistake == Mistake::kMisaligned && i == 0) *reinterpret_cast<float4*>(x + 1) = make_float4(v, v, v, v);
  if (kMistake == Mistake::kOverflow && i * 4194304 + 4194304 == n) x[0] = v;
  if (kMistake == Mistake::kLocalBounds) {
    float values[4] = {v, v, v, v};
    for (int k = 0; k < n % 500; ++k) values[k] += v;
    x[i] = values[i % 4];
  }
  if (kMistake == Mistake::kWriteOfConstant && i == 0) kOffsets[0] = v;
}

__global__ void scale_kernel(float* x, float factor, int n) {
  const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) x[i] *= factor;
}

template <int kTimes>
__global__ void __launch_bounds__(64) sum_rows_kernel(const float* __restrict__ x, float* __restrict__ sums, int cols) {
  __shared__ float partial[2];
  float sum = 0;
#pragma unroll 4
  for (int c = int(threadIdx.x); c < cols; c += 64) sum += __ldg(x + std::size_t(blockIdx.x) * cols + c);
  for (int bit = 16; bit > 0; bit >>= 1) sum += __shfl_xor_sync(kFullMask, sum, bit);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) sums[blockIdx.x] = kTimes * (partial[0] + partial[1]);
}

template <bool kSynchronised>
__global__ void sum_neighbours_kernel(float* x) {
  __shared__ float shared[256];
  float* mine = shared + threadIdx.x / 32 * 32;
  const unsigned lane = threadIdx.x % 32;
  float& v = x[blockIdx.x * blockDim.x + threadIdx.x];
  float sum = v;
  for (unsigned bit = 1; bit <= 2; bit *= 2) {
    mine[lane] = v;
    if (kSynchronised) __syncwarp();
    sum += mine[lane ^ bit];
    if (kSynchronised) __syncwarp();
  }
  v = sum;
}

__global__ void warp_operations_kernel(int* out) {
  const int t = int(threadIdx.x), lane = t % 32;
  int* mine = out + t * 8;
  mine[0] = __shfl_sync(kFullMask, t, 5);
  mine[1] = __shfl_down_sync(kFullMask, t, 4);
  mine[2] = __shfl_up_sync(kFullMask, t, 4, 8);
  mine[3] = __shfl_xor_sync(kFullMask, t, 3);
  mine[4] = int(__ballot_sync(kFullMask, lane < 3));
  mine[5] = __reduce_max_sync(kFullMask, lane - 40);
  // Two halves of a warp, each with its own mask.
  const unsigned half = lane < 16 ? 0xffffu : 0xffff0000u;
  mine[6] = __any_sync(half, lane == 3);
  mine[7] = __syncthreads_count(t % 4 == 0);
}

__global__ void histogram_kernel(const int* ids, int* counts, int n) {
  const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) atomicAdd(counts + ids[i] % 4, 1);
}

__global__ void write_bytes_kernel(unsigned char* out, int n) {
  const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) out[i] = static_cast<unsigned char>(i);
}

int blocks_of(int n) { return (n + 255) / 256; }

}  // namespace

cudaError_t reverse(cudaStream_t stream, Mistake mistake, float* x, const float* host, int n) {
  const auto run = [&](void (*kernel)(float*, const float*, int), std::size_t shared = 0) {
    return launch(stream, blocks_of(n), 256, shared, kernel, x, host, n);
  };
  switch (mistake) {
    case Mistake::kNone:
      return run(reverse_kernel<Mistake::kNone>);
    case Mistake::kNoBarrier:
      return run(reverse_kernel<Mistake::kNoBarrier>);
    case Mistake::kBarrierInBranch:
      return run(reverse_kernel<Mistake::kBarrierInBranch>);
    case Mistake::kEarlyReturn:
      return run(reverse_kernel<Mistake::kEarlyReturn>);
    case Mistake::kHalfWarpShuffle:
      return run(reverse_kernel<Mistake::kHalfWarpShuffle>);
    case Mistake::kPastTheEnd:
      return run(reverse_kernel<Mistake::kPastTheEnd>);
    case Mistake::kFarPastTheEnd:
      return run(reverse_kernel<Mistake::kFarPastTheEnd>);
    case Mistake::kHostPointer:
      return run(reverse_kernel<Mistake::kHostPointer>);
    case Mistake::kUnwrittenShared:
      return run(reverse_kernel<Mistake::kUnwrittenShared>);
    case Mistake::kSharedPastTheEnd:
      return run(reverse_kernel<Mistake::kSharedPastTheEnd>, 512);
    case Mistake::kBlocksShareASum:
      return run(reverse_kernel<Mistake::kBlocksShareASum>);
    case Mistake::kWriteOfRead:
      return run(reverse_kernel<Mistake::kWriteOfRead>);
    case Mistake::kMisaligned:
      return run(reverse_kernel<Mistake::kMisaligned>);
    case Mistake::kWriteOfConstant:
      return run(reverse_kernel<Mistake::kWriteOfConstant>);
    case Mistake::kOverflow:
      return run(reverse_kernel<Mistake::kOverflow>);
    case Mistake::kLocalBounds:
      return run(reverse_kernel<Mistake::kLocalBounds>);
  }
  return cudaErrorInvalidValue;
}

cudaError_t scale(cudaStream_t stream, float* x, float factor, int n) {
  return launch(stream, blocks_of(n), 256, 0, scale_kernel, x, factor, n);
}

cudaError_t sum_rows(cudaStream_t stream, const float* x, float* sums, int rows, int cols) {
  return launch(stream, rows, 64, 0, sum_rows_kernel<1>, x, sums, cols);
}

cudaError_t sum_rows_twice(cudaStream_t stream, const float* x, float* sums, int rows, int cols) {
  return launch(stream, rows, 64, 0, sum_rows_kernel<2>, x, sums, cols);
}

cudaError_t sum_neighbours(cudaStream_t stream, bool synchronised, float* x, int n) {
  return launch(stream, (n + 255) / 256, n < 256 ? n : 256, 0,
                synchronised ? sum_neighbours_kernel<true> : sum_neighbours_kernel<false>, x);
}

cudaError_t warp_operations(cudaStream_t stream, int* out) {
  return launch(stream, 1, 64, 0, warp_operations_kernel, out);
}

cudaError_t histogram(cudaStream_t stream, const int* ids, int* counts, int n) {
  return launch(stream, blocks_of(n), 256, 0, histogram_kernel, ids, counts, n);
}

cudaError_t write_bytes(cudaStream_t stream, unsigned char* out, int n) {
  return launch(stream, blocks_of(n), 256, 0, write_bytes_kernel, out, n);
}

}  // namespace tessera::cuda_emulator
