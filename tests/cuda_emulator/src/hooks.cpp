// The functions that g++ -fsanitize=thread calls at each load and store, and those for undefined behaviour of
// -fsanitize=alignment, bounds, ..., instead of the ones of libtsan and libubsan.
#include <cstddef>
#include <cstdint>
#include <string>

#include "access.h"
#include "fault.h"
#include "grid.h"
#include "thread_state.h"

namespace tessera::cuda_emulator {
namespace {

/// How g++ begins what it tells of undefined behaviour.
struct Place {
  const char* file;
  std::uint32_t line, column;
};

/// Of an access through a pointer that its type's alignment forbids.
struct MisalignedAccess {
  Place place;
  const void* type;
  std::uint8_t log_alignment, kind;
};

void report(const std::string& what, const void* data) {
  const Place& place = *static_cast<const Place*>(data);
  const std::string file = place.file;
  const std::string sentence = what + " at " + file.substr(file.rfind('/') + 1) + ":" + std::to_string(place.line);
  if (this_thread.in_kernel) kernel_fault(sentence);
  misuse(sentence);
}

void report_misaligned(const void* data, std::uintptr_t address) {
  const std::uint32_t alignment = 1u << static_cast<const MisalignedAccess*>(data)->log_alignment;
  report("misaligned access: an address " + std::to_string(address % alignment) + " bytes past a multiple of " +
             std::to_string(alignment),
         data);
}

}  // namespace
}  // namespace tessera::cuda_emulator

using tessera::cuda_emulator::AccessKind;
using tessera::cuda_emulator::check_access;
using tessera::cuda_emulator::report;
using tessera::cuda_emulator::report_misaligned;

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

void __ubsan_handle_type_mismatch_v1(void* data, std::uintptr_t address) { report_misaligned(data, address); }
void __ubsan_handle_out_of_bounds(void* data, std::uintptr_t) { report("index out of an array's bounds", data); }
void __ubsan_handle_shift_out_of_bounds(void* data, std::uintptr_t, std::uintptr_t) {
  report("shift by more than the bits there are", data);
}
void __ubsan_handle_divrem_overflow(void* data, std::uintptr_t, std::uintptr_t) { report("division by zero", data); }
#define OVERFLOW(OP) \
  void __ubsan_handle_##OP##_overflow(void* data, std::uintptr_t, std::uintptr_t) { report("integer overflow", data); }
OVERFLOW(add)
OVERFLOW(sub)
OVERFLOW(mul)
#undef OVERFLOW
void __ubsan_handle_negate_overflow(void* data, std::uintptr_t) { report("integer overflow", data); }

}  // extern "C"
