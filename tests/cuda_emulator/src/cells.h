#pragma once

#include <array>
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

enum CellFlag : std::uint8_t {
  kByAtomic = 1,
  kByBlocks = 2,  // read by several blocks of the launch
  kByWarps = 4,   // since the last barrier by several warps
  kByLanes = 8,   // and by several lanes of one, since its last operation
};

/// Two bytes of memory that threads share: the smallest type of kernels but for u8 and bool. Of threads that touch
/// different bytes of a cell only the last is known, so a race of bytes may be missed; none is reported wrongly.
struct Cell {
  LastAccess write, read;

  /// Whether the access breaks the order of memory; remembers it if not. `oldest`: the first block that matters, the
  /// launch's in global memory, the running one in shared memory.
  Trouble touch(const Position& by, std::uint8_t bytes, AccessKind kind, Space space, std::uint32_t oldest);
  std::string describe(Trouble trouble, const Position& by, AccessKind kind, Space space) const;
};

inline bool is_ordered(const LastAccess& before, const Position& now, std::uint32_t oldest) {
  if (before.block < oldest) return true;
  if (before.block != now.block || (before.flags & kByBlocks) != 0) return false;
  if (before.epoch != now.epoch) return true;
  if ((before.flags & kByWarps) != 0 || before.thread / 32 != now.thread / 32) return false;
  if (before.thread == now.thread && (before.flags & kByLanes) == 0) return true;
  return before.warp_epoch != now.warp_epoch;
}

inline bool conflicts(const LastAccess& before, const Position& now, std::uint8_t bytes, AccessKind kind,
                      std::uint32_t oldest) {
  if ((before.bytes & bytes) == 0 || (kind == AccessKind::kAtomic && (before.flags & kByAtomic) != 0)) return false;
  return !is_ordered(before, now, oldest);
}

/// What is remembered of the readers since the last write, after one more.
inline LastAccess add_reader(const LastAccess& before, const Position& by, std::uint8_t bytes, std::uint32_t oldest) {
  LastAccess now{by.block, by.epoch, by.warp_epoch, by.thread, bytes, 0};
  if (before.block < oldest) return now;
  now.flags = before.flags & kByBlocks;
  if (before.block != by.block) now.flags |= kByBlocks;
  if (before.block == by.block && before.epoch != by.epoch) return now;
  now.bytes |= before.bytes;
  now.flags |= before.flags & kByWarps;
  if (before.thread / 32 != by.thread / 32)
    now.flags |= kByWarps;
  else if (before.warp_epoch == by.warp_epoch && (before.thread != by.thread || (before.flags & kByLanes) != 0))
    now.flags |= kByLanes;
  return now;
}

inline Trouble Cell::touch(const Position& by, std::uint8_t bytes, AccessKind kind, Space space, std::uint32_t oldest) {
  if (conflicts(write, by, bytes, kind, oldest)) return Trouble::kWritten;
  if (kind == AccessKind::kRead) {
    if (space == Space::kShared && write.block != by.block) return Trouble::kUnwritten;
    read = add_reader(read, by, bytes, oldest);
    return Trouble::kNone;
  }
  if (conflicts(read, by, bytes, kind, oldest)) return Trouble::kRead;
  const std::uint8_t flags = kind == AccessKind::kAtomic ? kByAtomic : 0;
  write = {by.block, by.epoch, by.warp_epoch, by.thread, bytes, flags};
  return Trouble::kNone;
}

/// The cells of global memory that the running launch has touched. What an earlier launch left there is older than the
/// launch's first block and means nothing.
class GlobalCells {
 public:
  Cell& at(std::uintptr_t address) { return page_of(address).cells[address % kPage / 2]; }
  /// Adds to the traffic an access of the launch whose first block is `launch`.
  void count(std::uintptr_t address, std::size_t size, AccessKind kind, std::uint32_t launch);
  /// Once before each launch: its pages go back to the pool.
  void begin_launch();

 private:
  static constexpr std::size_t kPage = 4096, kSector = 32;  // bytes of device memory
  struct Page {
    std::array<Cell, kPage / 2> cells;
    std::array<std::uint32_t, kPage / kSector> read_by{}, written_by{};  // launches
  };
  Page& page_of(std::uintptr_t address) {
    return last_ != nullptr && address / kPage == last_number_ ? *last_ : find_page(address / kPage);
  }
  Page& find_page(std::uintptr_t number);

  std::unordered_map<std::uintptr_t, Page*> pages_;
  std::vector<std::unique_ptr<Page>> pool_;
  std::size_t used_ = 0;
  std::uintptr_t last_number_ = 0;
  Page* last_ = nullptr;
};

}  // namespace tessera::cuda_emulator
