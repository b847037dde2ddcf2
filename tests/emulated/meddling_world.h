#pragma once

#include <functional>
#include <memory>

#include "comm/communicator.h"

namespace tessera::mutations {

/// Gets a rank's collectives in the order in which they are called, each as a function that makes the call, now or
/// later.
using Meddle = std::function<void(std::function<void()> call)>;

/// A world that does what the given one does, but for when its collectives are called.
std::unique_ptr<comm::World> meddling_world(comm::World& inner, Meddle meddle);

}  // namespace tessera::mutations
