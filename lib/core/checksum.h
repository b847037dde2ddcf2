#pragma once

#include <cstdint>
#include <string>

namespace tessera {

/// Checksum of a tensor that ranks make together, each of the elements that it has: the sum of all parts' checksums,
/// modulo 2^64, is that of the whole. An element goes in with its place, so that nothing may be swapped; a change goes
/// unseen once in 2^64 times. The mixing is splitmix64's: Steele, Lea, Flood, "Fast splittable pseudorandom number
/// generators", OOPSLA 2014.
/// `count` elements of `item` bytes (1, 2, 4 or 8), of which the first is element `place` of the tensor.
std::uint64_t checksum(const void* elements, std::int64_t count, std::int64_t item, std::int64_t place);

/// Sixteen hexadecimal digits, and back; Error (checkpoint), since that is where they are kept, for anything else.
std::string checksum_text(std::uint64_t sum);
std::uint64_t checksum_value(const std::string& text);

}  // namespace tessera
