#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "access.h"
#include "grid.h"

namespace tessera::cuda_emulator {

enum class Space { kGlobal, kShared };
enum class Trouble { kNone, kWritten, kRead, kUnwritten };  // a race with a write, with a read; a read of nothing

/// Who last read or wrote two bytes.
struct LastAccess {
  std::uint32_t block = 0;  // 0: nobody
  std::uint16_t epoch = 0, warp_epoch = 0, thread = 0;
  std::uint8_t bytes = 0;  // which of the two, as bits
  std::uint8_t flags = 0;
};

/// Two bytes of memory that threads share: the smallest type of kernels but for u8 and bool. Of threads that touch
/// different bytes of a cell only the last is known, so a race of bytes may be missed; none is reported wrongly.
struct Cell {
  LastAccess write, read;

  /// Whether the access breaks the order of memory; remembers it if not.
  Trouble touch(const Position& by, std::uint8_t bytes, AccessKind kind, Space space);
  std::string describe(Trouble trouble, const Position& by, AccessKind kind, Space space) const;
};

/// The cells of global memory that the running launch has touched. What an earlier launch left there is older than the
/// launch's first block and means nothing.
class GlobalCells {
 public:
  Cell& at(std::uintptr_t address);
  /// Once before each launch: its pages go back to the pool.
  void begin_launch();

 private:
  static constexpr std::size_t kPage = 4096;  // bytes of device memory
  struct Page {
    Cell cells[kPage / 2];
  };
  std::unordered_map<std::uintptr_t, Page*> pages_;
  std::vector<std::unique_ptr<Page>> pool_;
  std::size_t used_ = 0;
  std::uintptr_t last_number_ = 0;
  Page* last_ = nullptr;
};

}  // namespace tessera::cuda_emulator
