#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "comm/communicator.h"

namespace tessera::comm {

/// to[j][i] = from[0][i] op from[1][i] op ... in this order, for i < count. A destination may be one of the sources.
/// NaN stays NaN under kMax. f32, f64, i32, i64; Error (internal) for another dtype.
void reduce(DType dtype, Reduce op, const std::vector<const std::byte*>& from, const std::vector<std::byte*>& to,
            std::int64_t count);

}  // namespace tessera::comm
