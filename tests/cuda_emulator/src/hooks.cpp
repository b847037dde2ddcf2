// The functions that g++ -fsanitize=thread calls at each load and store, and those of -fsanitize=alignment, instead of
// the ones of libtsan and libubsan.
#include <cstddef>
#include <cstdint>
#include <string>

#include "access.h"
#include "fault.h"
#include "grid.h"
#include "thread_state.h"

namespace tessera::cuda_emulator {
namespace {

/// What g++ tells of an access through a pointer that its type's alignment forbids.
struct MisalignedAccess {
  const char* file;
  std::uint32_t line, column;
  const void* type;
  std::uint8_t log_alignment, kind;
};

void report(const MisalignedAccess& access, std::uintptr_t address) {
  const std::string file = access.file;
  const std::string what = "misaligned access: an address " + std::to_string(address % (1u << access.log_alignment)) +
                           " bytes past a multiple of " + std::to_string(1u << access.log_alignment) + " at " +
                           file.substr(file.rfind('/') + 1) + ":" + std::to_string(access.line);
  if (this_thread.in_kernel) kernel_fault(what);
  misuse(what);
}

}  // namespace
}  // namespace tessera::cuda_emulator

using tessera::cuda_emulator::AccessKind;
using tessera::cuda_emulator::check_access;

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming,bugprone-macro-parentheses): g++'s names
extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
void __tsan_read_range(void* p, std::size_t n) { check_access(p, n, AccessKind::kRead); }
void __tsan_write_range(void* p, std::size_t n) { check_access(p, n, AccessKind::kWrite); }

#define ACCESSES(N)                                                                   \
  void __tsan_read##N(void* p) { check_access(p, N, AccessKind::kRead); }             \
  void __tsan_write##N(void* p) { check_access(p, N, AccessKind::kWrite); }           \
  void __tsan_unaligned_read##N(void* p) { check_access(p, N, AccessKind::kRead); }   \
  void __tsan_unaligned_write##N(void* p) { check_access(p, N, AccessKind::kWrite); } \
  void __tsan_volatile_read##N(void* p) { check_access(p, N, AccessKind::kRead); }    \
  void __tsan_volatile_write##N(void* p) { check_access(p, N, AccessKind::kWrite); }
ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)
#undef ACCESSES

// The atomics of host code in the same file, such as counts of references.
#define FETCH(BITS, T, OP) \
  T __tsan_atomic##BITS##_fetch_##OP(volatile T* p, T v, int) { return __atomic_fetch_##OP(p, v, __ATOMIC_SEQ_CST); }
#define ATOMICS(BITS, T)                                                                                            \
  FETCH(BITS, T, add)                                                                                               \
  FETCH(BITS, T, sub)                                                                                               \
  FETCH(BITS, T, and)                                                                                               \
  FETCH(BITS, T, or)                                                                                                \
  FETCH(BITS, T, xor)                                                                                               \
  T __tsan_atomic##BITS##_load(const volatile T* p, int) { return __atomic_load_n(p, __ATOMIC_SEQ_CST); }           \
  void __tsan_atomic##BITS##_store(volatile T* p, T v, int) { __atomic_store_n(p, v, __ATOMIC_SEQ_CST); }           \
  T __tsan_atomic##BITS##_exchange(volatile T* p, T v, int) { return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST); } \
  bool __tsan_atomic##BITS##_compare_exchange_strong(volatile T* p, T* e, T v, int, int) {                          \
    return __atomic_compare_exchange_n(p, e, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                         \
  }                                                                                                                 \
  bool __tsan_atomic##BITS##_compare_exchange_weak(volatile T* p, T* e, T v, int, int) {                            \
    return __atomic_compare_exchange_n(p, e, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                         \
  }
ATOMICS(8, std::uint8_t)
ATOMICS(16, std::uint16_t)
ATOMICS(32, std::uint32_t)
ATOMICS(64, std::uint64_t)
#undef ATOMICS
#undef FETCH
void __tsan_atomic_thread_fence(int) {}

void __ubsan_handle_type_mismatch_v1(void* access, std::uintptr_t address) {
  tessera::cuda_emulator::report(*static_cast<tessera::cuda_emulator::MisalignedAccess*>(access), address);
}

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming,bugprone-macro-parentheses)
