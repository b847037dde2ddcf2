#include <fmt/format.h>

#include "comm/communicator.h"

namespace tessera::comm {

std::string to_string(const Context* context, const char* unknown) {
  if (context == nullptr) return unknown;
  if (context->instruction < 0) return fmt::format("{} (step {})", context->what, context->step);
  return fmt::format("{} (instruction {}, step {})", context->what, context->instruction, context->step);
}

}  // namespace tessera::comm
