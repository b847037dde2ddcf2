#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "core/shape.h"
#include "graph/initializer.h"

namespace tessera::runtime {

/// Writes elements first .. first + count - 1 (row-major within `box`) of a variable of global shape `shape`. A value
/// depends on the initializer and the element's row-major index e in the global tensor alone (orthogonal: and on the
/// shape):
///   uniform           low + (high - low) u,  u = uniform_01(philox_bits(key, e, 0))
///   normal            mean + stddev z; Box and Muller 1958: z = sqrt(-2 ln u1) cos(2 pi u2), where u1 and u2 are
///                     (philox_bits(key, e, 0) + 1/2) / 2^32 and (philox_bits(key, e, 1) + 1/2) / 2^32
///   truncated normal  mean + stddev z; z = the inverse normal distribution at Phi(-2) + u1 (Phi(2) - Phi(-2))
///   identity          the gain where row == column, else 0 (rank 2)
///   orthogonal        orthogonal.h (rank 2 or more)
/// computed in double and rounded once. Throws Error (config) for an initializer that the dtype or the shape doesn't
/// allow.
void initial_values(const graph::Initializer& initializer, const Shape& shape, const Box& box, DType dtype,
                    std::int64_t first, std::int64_t count, void* values);

/// The inverse of the standard normal distribution function, to double precision, for p in (0, 1): Acklam's rational
/// approximation (relative error 1.2e-9) and one step of Halley's method.
double inverse_normal(double p);

}  // namespace tessera::runtime
