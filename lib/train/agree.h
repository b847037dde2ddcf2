#pragma once

#include <functional>

#include "comm/communicator.h"
#include "core/error.h"

namespace tessera::train {

/// Runs on every rank something that does not communicate and may fail on some of them (files, memory). If it does,
/// every rank throws the Error of the lowest one that failed, with "rank 3: " in front unless all failed alike.
/// Collective.
void agree(comm::World& world, const std::function<void()>& body);

/// Runs something that communicates: an Error of this rank ends the job on all, since the others wait for it.
template <typename Body>
void or_end_job(comm::World& world, const Body& body) {
  if (world.size() == 1) return body();
  try {
    body();
  } catch (const Error& error) {
    world.abort(static_cast<int>(error.code()), error.what());
  }
}

}  // namespace tessera::train
