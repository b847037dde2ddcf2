#include "core/philox.h"

namespace tessera {
namespace {

constexpr std::uint64_t kFnvOffset = 0xcbf29ce484222325ULL;
constexpr std::uint64_t kFnvPrime = 0x100000001b3ULL;

std::uint64_t fnv(std::uint64_t hash, std::string_view bytes) {
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * kFnvPrime;
  return (hash ^ 0xffU) * kFnvPrime;  // a separator, so that ("ab", "c") and ("a", "bc") differ
}

std::uint64_t splitmix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

}  // namespace

std::uint64_t philox_key(std::uint64_t seed, std::string_view purpose, std::string_view call_path) {
  return splitmix(fnv(fnv(kFnvOffset, purpose), call_path) ^ splitmix(seed));
}

}  // namespace tessera
