#pragma once

#include <string>

#include "core/error.h"

namespace tessera {

/// The sentence of the Error that `call` throws, "" if it throws none.
template <typename F>
std::string error_text(const F& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace tessera
