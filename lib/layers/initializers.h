#pragma once

#include <string>
#include <utility>
#include <vector>

#include "config/fields.h"
#include "core/shape.h"
#include "graph/initializer.h"

namespace tessera::layers {

/// Keras's fans (keras/src/initializers/random_initializers.py, compute_fans): (n): n, n; (in, out); else the last two
/// times the product of those before.
struct Fans {
  double in = 1, out = 1;
};
Fans compute_fans(const Shape& shape);

/// A Keras initialiser for a variable of this shape. Its key is hash(seed, "init", path); an argument `seed` takes the
/// place of the model's. Throws Error (config) with the place.
graph::Initializer make_initializer(const config::Constructor& initializer, const Shape& shape, std::uint64_t seed,
                                    const std::string& path);

/// Name and fields of each, for the docs.
std::vector<std::pair<std::string, std::vector<config::FieldDoc>>> initializer_docs();

}  // namespace tessera::layers
