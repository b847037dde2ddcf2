#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace tessera::checkpoint {

/// Whether values of `from` may be stored as `to`: any number as a float (nearest, ties to even), integers as integers.
bool is_convertible(DType from, DType to);

/// `count` contiguous elements. False if an integer does not fit; what is written then means nothing.
bool convert(const void* from, DType from_dtype, void* to, DType to_dtype, std::int64_t count);

}  // namespace tessera::checkpoint
