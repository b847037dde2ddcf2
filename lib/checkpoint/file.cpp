#include "checkpoint/file.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "core/error.h"

namespace tessera::checkpoint {
namespace {

constexpr std::int64_t kMaxTransfer = std::int64_t{1} << 30;  // Linux moves at most 2 GiB a call

std::string words(int error) { return std::generic_category().message(error); }

int open_or_fail(const std::string& path, int flags, const char* purpose) {
  const int descriptor = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
  if (descriptor < 0) fail(ExitCode::kCheckpoint, "{}: cannot be opened to {}: {}", path, purpose, words(errno));
  return descriptor;
}

}  // namespace

File File::open_to_read(const std::string& path) {
  File file(path, open_or_fail(path, O_RDONLY | O_NONBLOCK, "read"));  // a pipe would wait for its writer
  struct stat status {};
  if (::fstat(file.descriptor_, &status) != 0) file.fail_with_errno("cannot be read");
  if (!S_ISREG(status.st_mode)) fail(ExitCode::kCheckpoint, "{}: is not a file", path);
  return file;
}

File File::create(const std::string& path) { return {path, open_or_fail(path, O_WRONLY | O_CREAT | O_TRUNC, "write")}; }

File File::open_to_write(const std::string& path) { return {path, open_or_fail(path, O_WRONLY, "write")}; }

File File::open_or_create(const std::string& path) { return {path, open_or_fail(path, O_WRONLY | O_CREAT, "write")}; }

File::File(File&& other) noexcept : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

File& File::operator=(File&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void File::fail_with_errno(const char* what) const {
  fail(ExitCode::kCheckpoint, "{}: {}: {}", path_, what, words(errno));
}

std::int64_t File::size() const {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) fail_with_errno("cannot be read");
  return status.st_size;
}

void File::read(void* to, std::int64_t bytes, std::int64_t offset) const {
  auto* at = static_cast<char*>(to);
  while (bytes > 0) {
    const auto done = ::pread(descriptor_, at, static_cast<std::size_t>(std::min(bytes, kMaxTransfer)), offset);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail_with_errno("cannot be read");
    if (done == 0)
      fail(ExitCode::kCheckpoint, "{}: ends at byte {}; it was cut short while it was read", path_, offset);
    at += done;
    offset += done;
    bytes -= done;
  }
}

void File::write(const void* from, std::int64_t bytes, std::int64_t offset) const {
  const auto* at = static_cast<const char*>(from);
  while (bytes > 0) {
    const auto done = ::pwrite(descriptor_, at, static_cast<std::size_t>(std::min(bytes, kMaxTransfer)), offset);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail_with_errno("cannot be written");
    at += done;
    offset += done;
    bytes -= done;
  }
}

void File::reserve(std::int64_t bytes) const {
  if (bytes == 0) return;
  int result = 0;
  do result = ::fallocate(descriptor_, 0, 0, bytes);
  while (result != 0 && errno == EINTR);
  if (result != 0 && (errno == EOPNOTSUPP || errno == ENOSYS)) result = ::ftruncate(descriptor_, bytes);
  if (result != 0) fail_with_errno("has no room on its disk");
}

void File::sync_and_close() {
  if (::fsync(descriptor_) != 0) fail_with_errno("cannot be written to the disk");
  if (::close(std::exchange(descriptor_, -1)) != 0) fail_with_errno("cannot be closed");
}

std::string read_text_file(const std::string& path) {
  const auto file = File::open_to_read(path);
  const auto size = file.size();
  constexpr std::int64_t kMost = 256 << 20;
  if (size > kMost) fail(ExitCode::kCheckpoint, "{}: has {} bytes, which is no text of ours", path, size);
  std::string text(static_cast<std::size_t>(size), '\0');
  file.read(text.data(), size, 0);
  return text;
}

void write_text_file(const std::string& path, const std::string& text) {
  auto file = File::create(path);
  file.write(text.data(), static_cast<std::int64_t>(text.size()), 0);
  file.sync_and_close();
}

void rename_durably(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0)
    fail(ExitCode::kCheckpoint, "{}: cannot be renamed to {}: {}", from, to, words(errno));
  const auto parent = std::filesystem::path(to).parent_path().string();
  sync_folder(parent.empty() ? "." : parent);
}

void sync_folder(const std::string& folder) {
  const int descriptor = open_or_fail(folder, O_RDONLY | O_DIRECTORY, "read");
  const int result = ::fsync(descriptor);
  const int error = errno;
  ::close(descriptor);
  // Some network file systems have no fsync of a folder.
  if (result != 0 && error != EINVAL && error != ENOTSUP)
    fail(ExitCode::kCheckpoint, "{}: cannot be written to the disk: {}", folder, words(error));
}

}  // namespace tessera::checkpoint
