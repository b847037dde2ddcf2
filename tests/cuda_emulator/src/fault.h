#pragma once

#include <string>

#include "cuda_runtime_api.h"

namespace tessera::cuda_emulator {

/// The program did what a device or a library forbids. Printed, kept for take_fault(), and the process will end with
/// exit code 98 unless a test takes it.
void misuse(const std::string& what);

/// misuse, and the context is lost as after an illegal address: every call returns the error from now on.
void fault(const std::string& what);

/// The context is lost by an injected failure: no fault of the program's.
void lose_context(cudaError_t error);

cudaError_t sticky_error();

/// Keeps an error for cudaGetLastError and returns it.
cudaError_t failed(cudaError_t error);

/// misuse with the call's name in front, unless `wrong` is empty. True if it was.
bool refused(const char* call, const std::string& wrong);

}  // namespace tessera::cuda_emulator
