#pragma once

#include <cstdint>

#include "device/operands.h"

namespace tessera::device {

enum class RowLoss : std::uint8_t { kMse, kMae, kHuber, kBinaryLogits, kBinaryProbabilities };

/// The attributes of row_loss and row_loss_backward.
struct RowLossOptions {
  RowLoss kind = RowLoss::kMse;
  float delta = 1;      // Huber
  float smoothing = 0;  // binary: y (1 - s) + s / 2
  double scale = 1;     // 1 / denominator
};

/// Throws Error (internal) for an unknown loss.
RowLossOptions parse_row_loss(const KernelSpec& spec);

}  // namespace tessera::device
