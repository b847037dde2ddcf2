#pragma once

#include "partition/plan.h"
#include "support/run_case.h"

namespace tessera::equality {

inline constexpr int kSteps = 3;

/// Expects the loss, gradients and weights of a mesh to be those of one device.
void expect_equal(const test::Outcome& one, const test::Outcome& many);

/// Expects the collectives that were counted in kSteps steps to be the planned ones.
void expect_planned(const test::Outcome& many, const partition::Plan& plan);

/// TESSERA_MESH_CASES, or so many.
int case_count(int otherwise);

}  // namespace tessera::equality
