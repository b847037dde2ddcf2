#pragma once

#include "partition/plan.h"

namespace tessera::partition {

/// Throws Error (out of memory, exit 5): the need, the limit, the ten largest buffers and the least number of ranks
/// that fits, found by planning with the first axis of the mesh doubled again and again.
[[noreturn]] void fail_out_of_memory(const Plan& plan, std::int64_t limit, const PlanRequest& request);

/// "dense_1/kernel 64.00 MiB", the largest first; weights, slots, and values of all programs.
std::vector<std::string> largest_buffers(const Plan& plan, std::size_t count);

}  // namespace tessera::partition
