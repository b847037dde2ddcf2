// Stands before the toolkit's cuda_runtime.h on the include path: the toolkit's declarations, then what nvcc would add.
#pragma once
// g++ sees the toolkit's template too, but it ends in a `const void*`, from which a kernel can't be called.
#define cudaLaunchKernelEx cudaLaunchKernelEx_of_the_toolkit
#include_next <cuda_runtime.h>
#undef cudaLaunchKernelEx

// All kernels of a process run on one thread, one block at a time, so a static is shared by exactly one block.
// Thread-local, because that thread's variables lie together: the emulator knows where, and fills them before each
// block.
#undef __shared__
#define __shared__ static thread_local
#undef __constant__
#define __constant__ __attribute__((section("cuda_constant")))  // known to the access check
#undef __launch_bounds__
#define __launch_bounds__(...)
#undef __grid_constant__
#define __grid_constant__

#include "cuda_emulator/arithmetic.h"
#include "cuda_emulator/atomics.h"
#include "cuda_emulator/block.h"
#include "cuda_emulator/launch.h"
#include "cuda_emulator/warp.h"
