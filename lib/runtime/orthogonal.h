#pragma once

#include <cstdint>
#include <functional>

#include "core/shape.h"
#include "graph/initializer.h"

namespace tessera::runtime {

/// Gives elements first .. first + count - 1 (row-major within `box`) of an orthogonal variable of global shape `shape`
/// to set(k, value), k counted from `first`; set is called from several threads. As in Keras the variable is a matrix
/// of (product of the leading dimensions, last dimension), times the gain: its columns are orthonormal, or its rows
/// where it has fewer of these, and it is uniformly distributed among all such matrices.
///
/// G. W. Stewart, "The efficient generation of random orthogonal matrices with an application to condition estimators",
/// SIAM J. Numer. Anal. 17, 1980: the product of Householder reflections of normal vectors, each one shorter than that
/// before. A row (or a column) of the product is made by itself, so a rank holds no more than a few vectors beside its
/// own elements. For an m x n matrix, m >= n, each takes 4 m n operations.
void orthogonal_values(const graph::Initializer& initializer, const Shape& shape, const Box& box, std::int64_t first,
                       std::int64_t count, const std::function<void(std::int64_t k, double value)>& set);

}  // namespace tessera::runtime
