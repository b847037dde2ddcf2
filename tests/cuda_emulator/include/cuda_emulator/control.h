// How a test steers the emulator and asks what it found. README.md lists the environment variables that do the same for
// a program under mpirun.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace tessera::cuda_emulator {

/// kEager: as issued. kLate: only what a host thread waits for, and what that depends on. kRandom: any legal order.
enum class StreamOrder { kEager, kLate, kRandom };
/// Of lanes, warps and the first block.
enum class ThreadOrder { kForward, kReverse, kRandom };

void set_order(StreamOrder streams, ThreadOrder threads, unsigned seed = 1);

/// How long after the last call on a stream what was issued runs though nobody waits for it; 20 ms at first. Peers may
/// depend on it.
void set_patience(std::chrono::milliseconds time);

/// Bytes of memory of each device, for allocations from now on.
void set_device_memory(std::size_t bytes);

/// Whether cublasLtMatmulAlgoGetHeuristic has algorithms for other epilogues than the default one. A program has to
/// live without.
void offer_epilogues(bool all);

enum class Failure {
  kMalloc,  // cudaMalloc finds no memory
  kLaunch,  // the kernel ends with an illegal address
  kHang,    // the kernel never ends
  kNccl,    // the collective never ends, and ncclCommGetAsyncError tells of a remote error
};

/// The n-th such call from now on (1: the next) fails; 0: none.
void fail_at(Failure what, int n);

/// What was read and written in device memory, in bytes, and by how many calls.
struct Traffic {
  struct Bytes {
    std::uint64_t read = 0, written = 0;
    std::uint64_t sum() const { return read + written; }
  };
  std::uint64_t launches = 0;     // of kernels
  std::uint64_t products = 0;     // of cuBLASLt, whose bytes aren't counted
  std::uint64_t copies = 0;       // copies and sets of the runtime
  std::uint64_t collectives = 0;  // groups of NCCL's calls, whose bytes aren't counted
  Bytes requested;                // by every access of every thread
  Bytes unique;  // the different sectors of 32 bytes that a launch touches, added over the launches: what memory has to
                 // move if each launch finds its second access to a sector in a cache
  Bytes copied;  // by copies and sets, not requested by any kernel
};

/// Since the last call of reset_traffic, of what is done. Atomics both read and write.
Traffic traffic();
void reset_traffic();

/// The first fault since the last call, or "". Clears it, the sticky error and the exit code 98.
std::string take_fault();

}  // namespace tessera::cuda_emulator
