#pragma once

#include "core/error.h"

namespace tessera {

/// What `body` returns. An Error of it gets the place in front.
template <typename Body>
decltype(auto) placed(const SourcePos& pos, const Body& body) {
  try {
    return body();
  } catch (const Error& error) {
    fail_at(pos, error.code(), "{}", error.what());
  }
}

}  // namespace tessera
