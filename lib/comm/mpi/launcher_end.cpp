#include "comm/mpi/launcher_end.h"

#include <algorithm>
#include <cmath>
#include <fcntl.h>
#include <fstream>
#include <spawn.h>
#include <string>
#include <unistd.h>

namespace tessera::comm {
namespace {

constexpr const char* kScript = R"(
n=0
while kill -0 "$0"; do
  [ $n -lt "$1" ] || kill -KILL "$0"
  n=$((n + 1))
  sleep 1
done)";

std::string name_of(pid_t process) {
  std::string name;
  std::ifstream("/proc/" + std::to_string(process) + "/comm") >> name;
  return name;
}

}  // namespace

void end_launcher_after(double seconds) {
  const pid_t launcher = getppid();
  const auto name = name_of(launcher);
  const auto names = {"mpirun", "mpiexec", "orte", "prte"};
  if (std::none_of(names.begin(), names.end(), [&](const char* start) { return name.starts_with(start); })) return;

  // A session of its own: mpirun kills those of its ranks. No file of theirs: mpirun reads until all are closed.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream)
    posix_spawn_file_actions_addopen(&files, stream, "/dev/null", O_RDWR, 0);
  posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);
  auto process = std::to_string(launcher);
  auto patience = std::to_string(std::lround(std::ceil(seconds)));
  std::string shell = "sh", option = "-c", script = kScript;
  char* words[] = {shell.data(), option.data(), script.data(), process.data(), patience.data(), nullptr};
  pid_t child = 0;
  posix_spawn(&child, "/bin/sh", &files, &attributes, words, environ);  // without it mpirun is waited for
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
}

}  // namespace tessera::comm
