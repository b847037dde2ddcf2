#pragma once

#include <string>

namespace tessera::test {

/// How a process ended.
struct Ended {
  int code = -1;
  double seconds = 0;
  std::string output;  // of both streams
};

/// Runs a line of the shell to its end.
Ended run_job(const std::string& command);

}  // namespace tessera::test
