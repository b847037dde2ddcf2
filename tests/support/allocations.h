#pragma once

// Replaces the operator new of a test binary by one that counts: to be included in one source of it.

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace tessera::test {

inline std::atomic<std::int64_t> allocations{0};  // by operator new, of all threads

inline void* counted_allocation(std::size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}

}  // namespace tessera::test

void* operator new(std::size_t bytes) { return tessera::test::counted_allocation(bytes); }
void* operator new[](std::size_t bytes) { return tessera::test::counted_allocation(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
