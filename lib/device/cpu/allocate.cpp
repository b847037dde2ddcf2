#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>

#include "core/error.h"
#include "core/text.h"
#include "device/cpu/context.h"

namespace tessera::device::cpu {
namespace {

constexpr std::size_t kAlignment = 256;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

[[noreturn]] void out_of_memory(std::size_t bytes) {
  fail(ExitCode::kOutOfMemory, "the system gives no {} of memory: {}; use more ranks or a smaller batch",
       human_bytes(static_cast<double>(bytes)), std::strerror(errno));
}

}  // namespace

std::shared_ptr<void> allocate_aligned(std::int64_t bytes) {
  TESSERA_CHECK(bytes >= 0, "{} bytes", bytes);
  const auto size = (static_cast<std::size_t>(bytes) + kAlignment) / kAlignment * kAlignment;  // never 0
  if (size < 2 * kHugePage) {
    void* memory = std::aligned_alloc(kAlignment, size);
    if (memory == nullptr) out_of_memory(size);
    std::memset(memory, 0, size);
    return {memory, std::free};
  }
  // Mapped with one page to spare, so that the part handed out begins on a huge page. The system zeroes what is
  // touched.
  const auto mapped = size + kHugePage;
  void* base = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) out_of_memory(size);
  const auto past = reinterpret_cast<std::uintptr_t>(base) % kHugePage;
  void* memory = static_cast<std::byte*>(base) + (kHugePage - past) % kHugePage;
  madvise(memory, size, MADV_HUGEPAGE);
  return {memory, [base, mapped](void*) { munmap(base, mapped); }};
}

}  // namespace tessera::device::cpu
