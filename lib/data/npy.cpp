#include "data/npy.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <optional>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include "core/error.h"

namespace tessera::data {
namespace {

static_assert(std::endian::native == std::endian::little, "files are little-endian and read as they are");

struct TypeRow {
  NpyType type;
  std::string_view code;  // without the byte order
  const char* name;
  int bytes;
};

constexpr std::array<TypeRow, 12> kTypes{{{NpyType::kF2, "f2", "float16", 2},
                                          {NpyType::kF4, "f4", "float32", 4},
                                          {NpyType::kF8, "f8", "float64", 8},
                                          {NpyType::kI1, "i1", "int8", 1},
                                          {NpyType::kI2, "i2", "int16", 2},
                                          {NpyType::kI4, "i4", "int32", 4},
                                          {NpyType::kI8, "i8", "int64", 8},
                                          {NpyType::kU1, "u1", "uint8", 1},
                                          {NpyType::kU2, "u2", "uint16", 2},
                                          {NpyType::kU4, "u4", "uint32", 4},
                                          {NpyType::kU8, "u8", "uint64", 8},
                                          {NpyType::kB1, "b1", "bool", 1}}};

const TypeRow& row(NpyType type) { return kTypes[static_cast<std::size_t>(type)]; }

// The header is a Python literal: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& path) : text_(text), path_(path) {}

  NpyHeader parse() {
    expect('{');
    while (!accept('}')) {
      const auto key = quoted();
      expect(':');
      if (key == "descr" && !type_)
        type_ = descr();
      else if (key == "fortran_order" && !fortran_)
        fortran_ = boolean();
      else if (key == "shape" && !shape_)
        shape_ = tuple();
      else
        broken();
      if (!accept(',') && peek() != '}') broken();
    }
    if (peek() != '\0' || !type_ || !fortran_ || !shape_) broken();
    if (*fortran_ && shape_->size() > 1)
      fail(ExitCode::kData, "{} is in Fortran order; save it with numpy.save(file, numpy.ascontiguousarray(array))",
           path_);
    return {*type_, *shape_, 0};
  }

 private:
  [[noreturn]] void broken() const {
    fail(ExitCode::kData, "{} has a broken header (at byte {} of it); write the file anew with numpy.save", path_, at_);
  }

  char peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool accept(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) broken();
  }

  std::string_view quoted() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') broken();
    const auto end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) broken();
    const auto word = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return word;
  }

  bool boolean() {
    peek();
    for (const std::string_view word : {"True", "False"}) {
      if (!text_.substr(at_).starts_with(word)) continue;
      at_ += word.size();
      return word == "True";
    }
    broken();
  }

  std::int64_t integer() {
    std::int64_t value = 0;
    peek();
    const auto start = at_;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_)
      if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, text_[at_] - '0', &value))
        broken();
    if (at_ == start) broken();
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // Python 2
    return value;
  }

  Shape tuple() {
    Shape shape;
    expect('(');
    while (!accept(')')) {
      shape.push_back(integer());
      if (!accept(',') && peek() != ')') broken();
    }
    return shape;
  }

  NpyType descr() {
    if (peek() == '[')
      fail(ExitCode::kData, "{} holds a structure; save each of its fields in a file of its own", path_);
    const auto text = quoted();
    const bool ordered = !text.empty() && std::string_view("<>|=").find(text[0]) != std::string_view::npos;
    const auto code = ordered ? text.substr(1) : text;
    for (const auto& known : kTypes) {
      if (code != known.code) continue;
      if (text[0] == '>' && known.bytes > 1)
        fail(ExitCode::kData, "{} is big-endian ({}); save it with numpy.save(file, array.astype('<{}'))", path_, text,
             code);
      return known.type;
    }
    if (!code.empty() && code[0] == 'O')
      fail(ExitCode::kData, "{} holds Python objects; save numbers, for instance with array.astype('float32')", path_);
    fail(ExitCode::kData,
         "{} has elements of type '{}'; float16, 32, 64, int8 to int64, uint8 to uint64 and bool are read: use "
         "array.astype('float32')",
         path_, text.substr(0, 32));
  }

  std::string_view text_;
  const std::string& path_;
  std::size_t at_ = 0;
  std::optional<NpyType> type_;
  std::optional<bool> fortran_;
  std::optional<Shape> shape_;
};

// Bytes of all elements; nullopt if they can't be counted.
std::optional<std::int64_t> data_bytes(const NpyHeader& header) {
  std::int64_t bytes = size_of(header.type);
  for (const auto n : header.shape) {
    if (n == 0) return 0;
    if (__builtin_mul_overflow(bytes, n, &bytes)) return std::nullopt;
  }
  return bytes;
}

std::uint32_t little_endian(std::span<const std::byte> bytes) {
  std::uint32_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<std::uint32_t>(bytes[i]);
  return value;
}

}  // namespace

std::int64_t size_of(NpyType type) { return row(type).bytes; }

std::string to_string(NpyType type) { return row(type).name; }

NpyHeader parse_npy_header(std::span<const std::byte> start, std::int64_t file_bytes, const std::string& path) {
  constexpr std::string_view kMagic = "\x93NUMPY";
  constexpr std::size_t kVersionAt = kMagic.size(), kLengthAt = kVersionAt + 2;
  if (start.size() < kLengthAt + 4 || std::memcmp(start.data(), kMagic.data(), kMagic.size()) != 0)
    fail(ExitCode::kData, "{} is not a .npy file; write it with numpy.save", path);
  const auto version = static_cast<int>(start[kVersionAt]);
  if (version < 1 || version > 3)
    fail(ExitCode::kData, "{} has .npy version {}; versions 1 to 3 are read: write it with numpy.save", path, version);
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  const auto text_at = kLengthAt + length_bytes;
  const std::size_t length = little_endian(start.subspan(kLengthAt, length_bytes));
  if (length > start.size() - text_at)
    fail(ExitCode::kData, "{} is cut off, or its header of {} bytes is not one; write it anew with numpy.save", path,
         length);
  auto header = HeaderParser({reinterpret_cast<const char*>(start.data()) + text_at, length}, path).parse();
  header.data_offset = static_cast<std::int64_t>(text_at + length);
  const auto bytes = data_bytes(header);
  if (!bytes || *bytes != file_bytes - header.data_offset)
    fail(ExitCode::kData,
         "{} should have {} bytes of {} {} after its header, and has {}; write it anew with numpy.save", path,
         bytes ? std::to_string(*bytes) : "more than 2^63", to_string(header.type), tessera::to_string(header.shape),
         file_bytes - header.data_offset);
  return header;
}

// O_NONBLOCK: to open a pipe would wait for its writer.
NpyFile::NpyFile(const std::string& path) : path_(path), fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (fd_ < 0) fail(ExitCode::kData, "{}: {}; is the path right?", path, std::strerror(errno));
  try {
    struct stat status {};
    if (::fstat(fd_, &status) != 0 || !S_ISREG(status.st_mode))
      fail(ExitCode::kData, "{} is not a file; name a .npy file", path);
    std::vector<std::byte> start(static_cast<std::size_t>(std::min<std::int64_t>(status.st_size, kMaxNpyHeader)));
    if (::pread(fd_, start.data(), start.size(), 0) != static_cast<ssize_t>(start.size()))
      fail(ExitCode::kData, "{} cannot be read: {}", path, std::strerror(errno));
    header_ = parse_npy_header(start, status.st_size, path);
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

NpyFile::~NpyFile() { ::close(fd_); }

void NpyFile::read(std::int64_t first, std::int64_t count, void* out) const {
  const auto element = size_of(header_.type);
  auto* to = static_cast<char*>(out);
  auto left = count * element;
  auto at = header_.data_offset + first * element;
  while (left > 0) {
    const auto got = ::pread(fd_, to, static_cast<std::size_t>(left), at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(ExitCode::kData, "{} cannot be read at byte {}: {}", path_, at, std::strerror(errno));
    if (got == 0) fail(ExitCode::kData, "{} ended at byte {} while it was read; it has been shortened", path_, at);
    to += got;
    at += got;
    left -= got;
  }
}

}  // namespace tessera::data
