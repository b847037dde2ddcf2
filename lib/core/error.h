#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace tessera {

/// What the process returns; see docs/cli.md.
enum class ExitCode : int {
  kDone = 0,
  kInternal = 1,  // also: verify found a difference
  kConfig = 2,    // config or launch
  kData = 3,
  kCheckpoint = 4,
  kOutOfMemory = 5,
  kNotFinite = 6,
  kPeerLost = 7,
  kRequeue = 75,  // saved after a signal
};

/// A place in a text, counted from 1. line 0: unknown.
struct SourcePos {
  std::string file;
  int line = 0;
  int column = 0;

  bool operator==(const SourcePos&) const = default;
};

/// "config.yaml:14:7", or the file alone where the line is unknown, or "".
std::string to_string(const SourcePos& pos);

/// The only exception type of the project. what() is a whole sentence: where, what, what to do.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& sentence) : std::runtime_error(sentence), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

template <typename... Args>
[[noreturn]] void fail(ExitCode code, fmt::format_string<Args...> text, Args&&... args) {
  throw Error(code, fmt::format(text, std::forward<Args>(args)...));
}

/// A sentence with "file:line:column: " in front.
[[noreturn]] void fail_with(const SourcePos& pos, ExitCode code, const std::string& sentence);

template <typename... Args>
[[noreturn]] void fail_at(const SourcePos& pos, ExitCode code, fmt::format_string<Args...> text, Args&&... args) {
  fail_with(pos, code, fmt::format(text, std::forward<Args>(args)...));
}

[[noreturn]] void fail_check(const char* file, int line, const char* condition, const std::string& sentence);

/// For what a correct program never reaches whatever the user writes.
#define TESSERA_CHECK(condition, ...)                                                                  \
  do {                                                                                                 \
    if (!(condition)) ::tessera::fail_check(__FILE__, __LINE__, #condition, fmt::format(__VA_ARGS__)); \
  } while (false)

}  // namespace tessera
