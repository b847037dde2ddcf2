#pragma once

#include <string>
#include <unistd.h>

namespace tessera::comm {

inline std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "unknown host";
}

}  // namespace tessera::comm
