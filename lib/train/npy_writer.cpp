#include "train/npy_writer.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>

#include "core/box_runs.h"
#include "core/error.h"
#include "core/text.h"

namespace tessera::train {
namespace {

std::string part_of(const std::string& file) { return file + ".part"; }

[[noreturn]] void fail_errno(const std::string& what, const std::string& file) {
  fail(ExitCode::kData, "can't {} {}: {}", what, file, std::strerror(errno));
}

std::string_view descr(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "<f4";
    case DType::kF64:
      return "<f8";
    case DType::kI32:
      return "<i4";
    case DType::kI64:
      return "<i8";
    case DType::kU8:
      return "|u1";
    case DType::kBool:
      return "|b1";
    default:
      fail(ExitCode::kData, "numpy has no {}", to_string(dtype));
  }
}

// Magic, version 1.0, length, a Python literal, spaces and a newline up to a multiple of 64 bytes.
std::string header(const Shape& shape, DType dtype) {
  std::vector<std::string> sizes;
  for (const auto size : shape) sizes.push_back(std::to_string(size));
  auto text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", descr(dtype), join(sizes),
                          sizes.size() == 1 ? "," : "");
  constexpr std::size_t kPrefix = 10;
  text.append(63 - (kPrefix + text.size()) % 64, ' ').push_back('\n');
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes.push_back(static_cast<char>(text.size() & 0xff));
  bytes.push_back(static_cast<char>(text.size() >> 8));
  return bytes + text;
}

void write_at(int fd, const std::string& file, const char* bytes, std::int64_t count, std::int64_t offset) {
  while (count > 0) {
    const auto written = pwrite(fd, bytes, static_cast<std::size_t>(count), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail_errno("write", file);
    bytes += written;
    count -= written;
    offset += written;
  }
}

}  // namespace

void NpyWriter::create(const std::string& file, const Shape& shape, DType dtype) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(file).parent_path(), error);
  const auto part = part_of(file);
  const int fd = open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) fail_errno("create", part);
  const auto start = header(shape, dtype);
  write_at(fd, part, start.data(), static_cast<std::int64_t>(start.size()), 0);
  const auto bytes = static_cast<off_t>(start.size()) + elements(shape) * size_of(dtype);
  const bool sized = ftruncate(fd, bytes) == 0;
  close(fd);
  if (!sized) fail_errno("give its size to", part);
}

NpyWriter::NpyWriter(const std::string& file, const Shape& shape, DType dtype)
    : file_(part_of(file)),
      shape_(shape),
      element_bytes_(size_of(dtype)),
      data_offset_(static_cast<std::int64_t>(header(shape, dtype).size())),
      fd_(open(file_.c_str(), O_WRONLY | O_CLOEXEC)) {
  if (fd_ < 0) fail_errno("open", file_);
}

NpyWriter::~NpyWriter() {
  if (fd_ >= 0) close(fd_);
}

void NpyWriter::write(const Box& box, const void* values) {
  if (empty(box)) return;  // it may lie behind the last row
  const BoxRuns runs(shape_, box);
  const auto run_bytes = runs.length() * element_bytes_;
  const auto* bytes = static_cast<const char*>(values);
  runs.for_each([&](std::int64_t start) {
    write_at(fd_, file_, bytes, run_bytes, data_offset_ + start * element_bytes_);
    bytes += run_bytes;
  });
}

void NpyWriter::sync() {
  if (fsync(fd_) != 0) fail_errno("write", file_);
}

void NpyWriter::commit(const std::string& file) {
  if (std::rename(part_of(file).c_str(), file.c_str()) != 0) fail_errno("rename", part_of(file));
}

}  // namespace tessera::train
