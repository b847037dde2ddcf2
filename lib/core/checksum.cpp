#include "core/checksum.h"

#include <charconv>
#include <cstring>

#include "core/error.h"

namespace tessera {
namespace {

std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

template <typename Bits>
std::uint64_t sum_of(const void* elements, std::int64_t count, std::int64_t place) {
  const auto* at = static_cast<const unsigned char*>(elements);
  std::uint64_t sum = 0;
  for (std::int64_t i = 0; i < count; ++i, at += sizeof(Bits)) {
    Bits bits;
    std::memcpy(&bits, at, sizeof bits);
    sum += mix(static_cast<std::uint64_t>(place + i + 1) * 0x9E3779B97F4A7C15ULL ^ bits);
  }
  return sum;
}

}  // namespace

std::uint64_t checksum(const void* elements, std::int64_t count, std::int64_t item, std::int64_t place) {
  switch (item) {
    case 1:
      return sum_of<std::uint8_t>(elements, count, place);
    case 2:
      return sum_of<std::uint16_t>(elements, count, place);
    case 4:
      return sum_of<std::uint32_t>(elements, count, place);
    case 8:
      return sum_of<std::uint64_t>(elements, count, place);
    default:
      fail(ExitCode::kInternal, "a checksum of elements of {} bytes", item);
  }
}

std::string checksum_text(std::uint64_t sum) { return fmt::format("{:016x}", sum); }

std::uint64_t checksum_value(const std::string& text) {
  std::uint64_t sum = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), sum, 16);
  if (error != std::errc() || end != text.data() + text.size() || text.size() != 16)
    fail(ExitCode::kCheckpoint, "'{}' is no checksum", text);
  return sum;
}

}  // namespace tessera
