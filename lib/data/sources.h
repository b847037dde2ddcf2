#pragma once

#include <memory>

#include "core/error.h"
#include "data/dataset.h"

namespace tessera::data {

/// Rows of a .npy file, cast to the field's dtype. `pos`: of the path in the YAML. Throws Error (data) with the place,
/// also where a sample's shape is not the field's up to a trailing dimension of 1.
std::unique_ptr<Source> npy_source(const std::string& path, const Field& field, const SourcePos& pos);

/// Philox numbers of the key (seed, "data", field's key) and the element's index in (samples, features...): normal, or
/// whole numbers below field.bound. Throws Error (data) for an integer field without a bound.
std::unique_ptr<Source> random_source(std::int64_t samples, const Field& field, std::uint64_t seed,
                                      const SourcePos& pos);

}  // namespace tessera::data
