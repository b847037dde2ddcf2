#pragma once

#include <cuda_runtime.h>
#include <set>
#include <string>
#include <utility>

// Put in front of a copy of the product's kernels (-include): any one of their barriers can be left out.
namespace tessera::mutations {

/// Of a barrier: the name of its file and its line.
using Place = std::pair<std::string, int>;

/// The barriers that kernels have come to.
std::set<Place>& barriers();

/// The one that kernels pass without waiting from now on; {}: none.
void leave_out(const Place& barrier);

/// Called by kernels.
bool is_left_out(const char* file, int line);

}  // namespace tessera::mutations

#define __syncthreads() (::tessera::mutations::is_left_out(__FILE__, __LINE__) ? static_cast<void>(0) : __syncthreads())
