#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "config/fields.h"
#include "config/node.h"

namespace tessera::layers {

/// The learning rate of the update after `step` calls of the optimizer.
using Schedule = std::function<double(std::int64_t step)>;

/// A number, or {ExponentialDecay: {...}}, {CosineDecay: {...}}. Throws Error (config) with the place.
Schedule make_schedule(const config::Node& learning_rate);

/// Name and fields of each class of schedule, for the docs.
std::vector<std::pair<std::string, std::vector<config::FieldDoc>>> schedule_docs();

}  // namespace tessera::layers
