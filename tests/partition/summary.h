#pragma once

#include <optional>
#include <string>

#include "partition/assignment.h"

namespace tessera::partition::testing {

/// The collectives of an assignment, a line a phase: "fwd: 5 AR@model 62914560", bytes that a rank receives. Phases:
/// weight (gathered variables), fwd, rep and weight.rep (repeated for the backward pass), bwd, grad, fwd.inner,
/// bwd.inner, update.
std::string summary(const SolverInput& input, const Assignment& assignment);

/// The time of an assignment, move by move, without the solver's tables; nullopt if an edge is forbidden.
std::optional<std::int64_t> time_from_moves(const SolverInput& input, const Assignment& assignment);
/// Edges and axes that do not split the batch on which a variable leaves its place.
std::int64_t penalty_from_moves(const SolverInput& input, const Assignment& assignment);

/// Bytes of operands that a rank keeps for the backward pass.
std::int64_t saved_bytes(const SolverInput& input, const Assignment& assignment);

}  // namespace tessera::partition::testing
