// What nvcc gives a kernel: its indices, the block's barriers and its dynamic shared memory.
#pragma once
#include <cstddef>
#include <cstdint>

extern uint3 threadIdx, blockIdx;  // set at each switch between the block's threads
extern dim3 blockDim, gridDim;
inline constexpr int warpSize = 32;

namespace tessera::cuda_emulator {

/// Where in the kernel's source a thread waits.
struct Where {
  const char* file = "";
  unsigned line = 0;
  static constexpr Where current(const char* file = __builtin_FILE(), unsigned line = __builtin_LINE()) {
    return {file, line};
  }
};

enum class Vote { kCount, kAll, kAny };

/// Returns when every thread of the block has come to the same place; anything else is a fault.
void block_barrier(Where where);
int block_vote(Vote vote, bool predicate, Where where);

/// 16-byte aligned; as many bytes as the launch asked for.
void* dynamic_shared_memory();

/// Ends the kernel with a fault.
[[noreturn]] void kernel_trap(const char* what);
long long clock_ticks();

}  // namespace tessera::cuda_emulator

/// A last parameter of every operation that waits: the caller's line.
#define CUDA_EMULATOR_WHERE tessera::cuda_emulator::Where where = tessera::cuda_emulator::Where::current()

inline void __syncthreads(CUDA_EMULATOR_WHERE) { tessera::cuda_emulator::block_barrier(where); }
inline int __syncthreads_count(int p, CUDA_EMULATOR_WHERE) {
  return tessera::cuda_emulator::block_vote(tessera::cuda_emulator::Vote::kCount, p != 0, where);
}
inline int __syncthreads_and(int p, CUDA_EMULATOR_WHERE) {
  return tessera::cuda_emulator::block_vote(tessera::cuda_emulator::Vote::kAll, p != 0, where);
}
inline int __syncthreads_or(int p, CUDA_EMULATOR_WHERE) {
  return tessera::cuda_emulator::block_vote(tessera::cuda_emulator::Vote::kAny, p != 0, where);
}

// One thread runs the block: its memory is always coherent. What a fence would order, the access check calls a race.
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}
// Programmatic dependent launch: kernels of a stream run one after the other anyway.
inline void cudaGridDependencySynchronize() {}
inline void cudaTriggerProgrammaticLaunchCompletion() {}

[[noreturn]] inline void __trap() { tessera::cuda_emulator::kernel_trap("__trap()"); }
inline long long clock64() { return tessera::cuda_emulator::clock_ticks(); }
inline void __nanosleep(unsigned) {}
