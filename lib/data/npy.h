#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/shape.h"

namespace tessera::data {

/// Element types of a .npy file that are read: little-endian f2 f4 f8, i1 i2 i4 i8, u1 u2 u4 u8, b1.
enum class NpyType : std::uint8_t { kF2, kF4, kF8, kI1, kI2, kI4, kI8, kU1, kU2, kU4, kU8, kB1 };

std::int64_t size_of(NpyType type);

/// numpy's name: "float32", "uint8", ...
std::string to_string(NpyType type);

struct NpyHeader {
  NpyType type = NpyType::kF4;
  Shape shape;
  std::int64_t data_offset = 0;  // bytes from the start of the file
};

/// The longest header that is believed, in bytes from the start of the file.
inline constexpr std::int64_t kMaxNpyHeader = 1 << 16;

/// Reads versions 1 to 3 from the first bytes of a file of `file_bytes` bytes. Throws Error (data), naming `path`, for
/// what isn't a whole .npy file, and for Fortran order, big endian, objects, strings and structures, saying how to save
/// it.
NpyHeader parse_npy_header(std::span<const std::byte> start, std::int64_t file_bytes, const std::string& path);

/// An open file. Elements are read where they are asked for; the file is never in memory as a whole.
class NpyFile {
 public:
  /// Throws Error (data), naming the path.
  explicit NpyFile(const std::string& path);
  ~NpyFile();
  NpyFile(const NpyFile&) = delete;
  NpyFile& operator=(const NpyFile&) = delete;

  const std::string& path() const { return path_; }
  const NpyHeader& header() const { return header_; }

  /// Copies `count` elements, from the row-major index `first` on, as they are in the file. Any thread.
  void read(std::int64_t first, std::int64_t count, void* out) const;

 private:
  std::string path_;
  int fd_ = -1;
  NpyHeader header_;
};

}  // namespace tessera::data
