// Atomic operations: a block's threads take turns on one thread of the host, so a plain update is one. The access check
// is told that it is meant to be shared.
#pragma once
#include <cstddef>
#include <cstring>
#include <type_traits>

namespace tessera::cuda_emulator {

void note_atomic(const volatile void* address, std::size_t size);

template <typename T, typename F>
__attribute__((no_sanitize("thread"))) T update(T* address, F&& next_of) {
  note_atomic(address, sizeof(T));
  T old;
  std::memcpy(&old, address, sizeof(T));
  const T next = next_of(old);
  std::memcpy(address, &next, sizeof(T));
  return old;
}

template <typename T>
using Same = std::type_identity_t<T>;  // not deduced: converted to the first argument's type

}  // namespace tessera::cuda_emulator

template <typename T>
T atomicAdd(T* p, tessera::cuda_emulator::Same<T> v) {
  return tessera::cuda_emulator::update(p, [&](T old) { return T(old + v); });
}
template <typename T>
T atomicSub(T* p, tessera::cuda_emulator::Same<T> v) {
  return tessera::cuda_emulator::update(p, [&](T old) { return T(old - v); });
}
template <typename T>
T atomicMax(T* p, tessera::cuda_emulator::Same<T> v) {
  return tessera::cuda_emulator::update(p, [&](T old) { return old < v ? v : old; });
}
template <typename T>
T atomicMin(T* p, tessera::cuda_emulator::Same<T> v) {
  return tessera::cuda_emulator::update(p, [&](T old) { return v < old ? v : old; });
}
template <typename T>
T atomicOr(T* p, tessera::cuda_emulator::Same<T> v) {
  return tessera::cuda_emulator::update(p, [&](T old) { return T(old | v); });
}
template <typename T>
T atomicAnd(T* p, tessera::cuda_emulator::Same<T> v) {
  return tessera::cuda_emulator::update(p, [&](T old) { return T(old & v); });
}
template <typename T>
T atomicXor(T* p, tessera::cuda_emulator::Same<T> v) {
  return tessera::cuda_emulator::update(p, [&](T old) { return T(old ^ v); });
}
template <typename T>
T atomicExch(T* p, tessera::cuda_emulator::Same<T> v) {
  return tessera::cuda_emulator::update(p, [&](T) { return v; });
}
template <typename T>
T atomicCAS(T* p, tessera::cuda_emulator::Same<T> expected, tessera::cuda_emulator::Same<T> v) {
  return tessera::cuda_emulator::update(p, [&](T old) { return old == expected ? v : old; });
}
