#pragma once

#include "graph/op.h"

namespace tessera::graph {

/// Of every operand and result.
constexpr std::size_t kMostDimensions = 8;

// The ops, with the operands and attributes of each. Attributes of the same name as a kernel's are explained in
// lib/device/README.md; [x] may be absent.

extern const Op kMatmul;   // x (..., k), w (k, n) -> (..., n)
extern const Op kBiasAdd;  // x (..., b...), bias (b...) -> x + bias
extern const Op kUnary;    // x -> f(x). function: a unary name of `elementwise`; parameter: its constant, if it has one
extern const Op kAdd;      // x0, x1, ... -> sum. Shapes broadcast as numpy's. Also of scalars in f64
extern const Op kAffine;   // x -> scale x + offset
extern const Op kCast;     // x -> x. dtype: Keras's name
extern const Op kReshape;  // x -> x. shape
extern const Op kConcat;   // x0, x1, ... -> joined. dim
extern const Op kSoftmax;  // x -> over the last dimension. log
extern const Op kDropout;  // x -> x. rate, key
extern const Op kLayerNorm;  // x [, gamma] [, beta] -> y. axes: number of trailing dimensions; epsilon, scale, center
extern const Op kEmbedding;  // table (v, d), ids (...) -> (..., d)

// Losses, one a row: pred (..., c) and target -> (...)
extern const Op kRowLoss;                  // target (..., c). loss, delta, from_logits, label_smoothing
extern const Op kCategoricalCrossentropy;  // target (..., c). from_logits, label_smoothing
extern const Op kSparseCrossentropy;       // labels (...). from_logits, [ignore_class]

// Sums over the real rows of the batch
extern const Op kWeightedSum;       // l [, weights] [, denominator] -> scalar. weights, denominator: rows, input or one
extern const Op kCountValid;        // labels -> f64 scalar, in the prologue. ignore_class
extern const Op kSumWeights;        // weights [, labels] -> f64 scalar, in the prologue. [ignore_class]
extern const Op kMatchRows;         // pred (..., c), target -> (...). kind, threshold
extern const Op kMetricAccumulate;  // values [, weights] -> f64 (2), the memory of a kMetric variable

// The update
extern const Op kSumSquares;          // g -> f64 scalar
extern const Op kClipByNorm;          // g, sum of squares -> g. norm, global
extern const Op kClipByValue;         // g -> g. limit
extern const Op kAccumulateGradient;  // acc, g -> acc
extern const Op kAverageGradient;     // acc, g -> (acc + g) / steps; acc becomes 0. steps
extern const Op kSgdUpdate;           // w, g [, m] -> w
extern const Op kAdamUpdate;          // w, g, m, v [, vhat] -> w
extern const Op kRmspropUpdate;       // w, g, v [, mean gradient] [, m] -> w
extern const Op kEmaUpdate;           // average, w -> average. momentum
extern const Op kEmaOverwrite;        // w, average -> w. frequency

}  // namespace tessera::graph
