#include "protection.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "thread_state.h"

namespace tessera::cuda_emulator {
namespace {

// What a wild access of a kernel, or the program's own to device memory, ends with.
void on_segmentation_fault(int, siginfo_t* info, void*) {
  if (reinterpret_cast<std::uintptr_t>(info->si_addr) - kArenaBase >= kArenaBytes) {
    signal(SIGSEGV, SIG_DFL);
    return;
  }
  std::array<char, 128> text;
  const int n = std::snprintf(text.data(), text.size(), "cuda emulator: %s touched device memory at %p\n",
                              this_thread.in_kernel ? "a kernel" : "the program", info->si_addr);
  if (write(2, text.data(), std::size_t(n)) < 0) _exit(99);
  _exit(98);
}

[[noreturn]] void die(const char* what) {
  std::perror(what);
  std::abort();
}

}  // namespace

Protection& protection() {
  static Protection& p = *new Protection;  // never destroyed: the thread that runs streams outlives main
  return p;
}

Protection::Protection() {
  const void* p = mmap(reinterpret_cast<void*>(kArenaBase), kArenaBytes, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (p == MAP_FAILED) die("cuda emulator: device memory");
  struct sigaction action {};
  action.sa_sigaction = on_segmentation_fault;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, nullptr);
  key_ = pkey_alloc(0, PKEY_DISABLE_ACCESS);
}

void Protection::set_rights(std::uintptr_t start, std::size_t size, int rights) const {
  void* p = reinterpret_cast<void*>(start);
  if ((key_ >= 0 ? pkey_mprotect(p, size, rights, key_) : mprotect(p, size, rights)) != 0)
    die("cuda emulator: rights of device memory");  // as after too many mappings
}

void Protection::begin(std::uintptr_t start, std::size_t size) {
  set_rights(start, size, PROT_READ | PROT_WRITE);
  if (key_ < 0) return;
  key_rights_before_ = pkey_get(key_);
  pkey_set(key_, 0);
}

void Protection::end(std::uintptr_t start, std::size_t size) {
  if (key_ >= 0) {
    pkey_set(key_, unsigned(key_rights_before_));
  } else if (size <= kMost) {
    closable_[start] = size;
    if (!open_) set_rights(start, size, PROT_NONE);
  }
}

void Protection::remove(std::uintptr_t start, std::size_t size) {
  const std::lock_guard lock(mutex_);
  closable_.erase(start);
  madvise(reinterpret_cast<void*>(start), size, MADV_DONTNEED);
  set_rights(start, size, PROT_NONE);
}

void Protection::open() {
  const std::lock_guard lock(mutex_);
  if (key_ >= 0) pkey_set(key_, 0);
  if (open_) return;
  open_ = true;
  for (const auto& [start, size] : closable_) set_rights(start, size, PROT_READ | PROT_WRITE);
}

void Protection::close() {
  const std::lock_guard lock(mutex_);
  if (key_ >= 0 || !open_) return;
  open_ = false;
  for (const auto& [start, size] : closable_) set_rights(start, size, PROT_NONE);
}

}  // namespace tessera::cuda_emulator
