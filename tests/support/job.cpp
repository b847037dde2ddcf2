#include "support/job.h"

#include <array>
#include <chrono>
#include <cstdio>
#include <sys/wait.h>

namespace tessera::test {

Ended run_job(const std::string& command) {
  const auto start = std::chrono::steady_clock::now();
  Ended ended;
  FILE* pipe = popen(("{ " + command + "; } 2>&1").c_str(), "r");
  if (pipe == nullptr) return ended;
  std::array<char, 4096> part;
  while (const auto bytes = fread(part.data(), 1, part.size(), pipe)) ended.output.append(part.data(), bytes);
  const int status = pclose(pipe);
  ended.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  ended.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return ended;
}

}  // namespace tessera::test
