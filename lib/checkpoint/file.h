#pragma once

#include <cstdint>
#include <string>

namespace tessera::checkpoint {

/// An open file; calls that fail throw Error (checkpoint) with the path and the system's words.
class File {
 public:
  static File open_to_read(const std::string& path);
  /// Made anew, empty.
  static File create(const std::string& path);
  static File open_to_write(const std::string& path);
  /// Made if it isn't there; what is there stays.
  static File open_or_create(const std::string& path);

  File() = default;
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File();

  std::int64_t size() const;
  /// All bytes or an error.
  void read(void* to, std::int64_t bytes, std::int64_t offset) const;
  void write(const void* from, std::int64_t bytes, std::int64_t offset) const;
  /// Blocks on the disk where the file system can, so that a full disk shows now.
  void reserve(std::int64_t bytes) const;
  /// What was written is on the disk; then closed.
  void sync_and_close();

 private:
  File(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
  [[noreturn]] void fail_with_errno(const char* what) const;

  std::string path_;
  int descriptor_ = -1;
};

/// The text of a file of at most 256 MiB.
std::string read_text_file(const std::string& path);
/// Makes or replaces a file; its text is on the disk when this returns.
void write_text_file(const std::string& path, const std::string& text);

/// The entries of a folder are on the disk.
void sync_folder(const std::string& folder);

/// Replaces `to`, and makes the folder's entry last.
void rename_durably(const std::string& from, const std::string& to);

}  // namespace tessera::checkpoint
