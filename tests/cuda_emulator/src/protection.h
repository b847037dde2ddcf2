#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

namespace tessera::cuda_emulator {

/// Device memory lies in one range of addresses, which are never handed out twice.
constexpr std::uintptr_t kArenaBase = 0x300000000000, kArenaBytes = std::uintptr_t(1) << 40;

/// Who may touch device memory: the thread that runs streams, not the program. Where the processor has protection keys,
/// always; elsewhere only while that thread has nothing to run, and not the program's larger allocations, whose rights
/// take long to change.
class Protection {
 public:
  Protection();
  Protection(const Protection&) = delete;

  /// [start, start + size), whole pages, becomes memory; `fill` writes its first contents.
  template <typename F>
  void add(std::uintptr_t start, std::size_t size, F&& fill) {
    const std::lock_guard lock(mutex_);
    begin(start, size);
    fill();
    end(start, size);
  }
  /// Nobody may touch it again.
  void remove(std::uintptr_t start, std::size_t size);

  // By the thread that runs streams.
  void open();
  void close();

 private:
  static constexpr std::size_t kMost = std::size_t(4) << 20;  // bytes of an allocation that is opened and closed
  void begin(std::uintptr_t start, std::size_t size);
  void end(std::uintptr_t start, std::size_t size);
  void set_rights(std::uintptr_t start, std::size_t size, int rights) const;

  std::mutex mutex_;
  int key_ = -1;  // of the processor's memory protection, or -1
  int key_rights_before_ = 0;
  bool open_ = false;
  std::map<std::uintptr_t, std::size_t> closable_;
};

Protection& protection();

}  // namespace tessera::cuda_emulator
