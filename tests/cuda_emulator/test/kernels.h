// Small kernels, right ones and ones with a mistake that the emulator has to find.
#pragma once
#include <cuda_runtime.h>

namespace tessera::cuda_emulator {

enum class Mistake {
  kNone,
  kNoBarrier,         // between a write and a read of shared memory
  kBarrierInBranch,   // threads of a warp come to another __syncthreads
  kEarlyReturn,       // before a barrier
  kHalfWarpShuffle,   // with a full mask
  kPastTheEnd,        // one float after the last
  kFarPastTheEnd,     // in another allocation or in none
  kHostPointer,       // read by the kernel
  kUnwrittenShared,   // read before anybody wrote it
  kSharedPastTheEnd,  // of dynamic shared memory
  kBlocksShareASum,   // two blocks add to a float without an atomic
  kWriteOfRead,       // one block writes what all have read
  kMisaligned,        // a float4 from an odd float
  kWriteOfConstant,
  kOverflow,     // of an index in 32 bits
  kLocalBounds,  // of an array of a thread's own
};

/// x[i] = 255 - i % 256, through shared memory. n: a multiple of 256, at most the floats of x. kWriteOfRead: `host` is
/// device memory.
cudaError_t reverse(cudaStream_t stream, Mistake mistake, float* x, const float* host, int n);

/// x[i] *= factor.
cudaError_t scale(cudaStream_t stream, float* x, float factor, int n);

/// sums[r] = sum of row r of x (rows, cols), by shuffles and shared memory; 64 threads a row.
cudaError_t sum_rows(cudaStream_t stream, const float* x, float* sums, int rows, int cols);

/// Twice the sums, by a kernel that no other test launches.
cudaError_t sum_rows_twice(cudaStream_t stream, const float* x, float* sums, int rows, int cols);

/// x[i] = x[i] + x[i ^ 1] + x[i ^ 2], n a multiple of 32: neighbours of a warp exchange by shared memory, twice, with
/// __syncwarp between or without.
cudaError_t sum_neighbours(cudaStream_t stream, bool synchronised, float* x, int n);

/// What shuffles, ballots and votes give: 8 ints for each of 64 threads.
cudaError_t warp_operations(cudaStream_t stream, int* out);

/// counts[ids[i] % 4] += 1, with atomics, over several blocks.
cudaError_t histogram(cudaStream_t stream, const int* ids, int* counts, int n);

/// out[i] = i, written by threads that each own one byte.
cudaError_t write_bytes(cudaStream_t stream, unsigned char* out, int n);

}  // namespace tessera::cuda_emulator
