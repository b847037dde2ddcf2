#include "core/error.h"

namespace tessera {

std::string to_string(const SourcePos& pos) {
  if (pos.line == 0) return pos.file;
  return fmt::format("{}:{}:{}", pos.file, pos.line, pos.column);
}

void fail_with(const SourcePos& pos, ExitCode code, const std::string& sentence) {
  const auto place = to_string(pos);
  throw Error(code, place.empty() ? sentence : place + ": " + sentence);
}

void fail_check(const char* file, int line, const char* condition, const std::string& sentence) {
  fail(ExitCode::kInternal, "internal error at {}:{}: {} does not hold: {}", file, line, condition, sentence);
}

}  // namespace tessera
