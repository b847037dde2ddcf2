#pragma once

#include "graph/op.h"

namespace tessera::graph {

// The ops, with the shapes and attributes of each. Attributes that a kernel of the same name takes are explained in
// lib/device/README.md. "?" marks an operand that may be absent.

extern const Op kMatmul;   // x (..., k), w (k, n) -> (..., n)
extern const Op kBiasAdd;  // x (..., b...), bias (b...) -> x + bias
extern const Op kUnary;    // x -> f(x). function: a unary name of `elementwise`; parameter: its constant, if it has one
extern const Op kAdd;      // x0, x1, ... -> sum. Shapes broadcast as numpy's. Also of scalars in f64

}  // namespace tessera::graph
