#include "core/error.h"

namespace tessera {

std::string to_string(const SourcePos& pos) {
  if (pos.line == 0) return pos.file;
  return fmt::format("{}:{}:{}", pos.file, pos.line, pos.column);
}

}  // namespace tessera
