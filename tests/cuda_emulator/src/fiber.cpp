#include "fiber.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>

namespace tessera::cuda_emulator {
namespace {

using boost::context::detail::jump_fcontext;
using boost::context::detail::make_fcontext;
using boost::context::detail::transfer_t;

constexpr std::size_t kHugePage = std::size_t(2) << 20;
constexpr std::uint64_t kMark = 0x5AFE57AC5AFE57AC;  // at a stack's lowest bytes, while there is room left

}  // namespace

// On huge pages, as a block's 1,024 stacks would exhaust the TLB.
void Fibers::map() {
  void* p = mmap(nullptr, kCount * kStack + kHugePage, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) {
    std::perror("cuda emulator: stacks");
    std::abort();
  }
  base_ = (reinterpret_cast<std::uintptr_t>(p) + kHugePage - 1) / kHugePage * kHugePage;
  madvise(reinterpret_cast<void*>(base_), kCount * kStack, MADV_HUGEPAGE);
}

Fiber* Fibers::take() {
  if (!free_.empty()) {
    Fiber* fiber = free_.back();
    free_.pop_back();
    return fiber;
  }
  if (base_ == 0) map();
  auto* fiber = new Fiber;
  fiber->stack = reinterpret_cast<char*>(base_ + all_.size() * kStack);
  // Tops at different offsets in a page: at the same one, 256 stacks would share a few cache lines.
  fiber->size = kStack - all_.size() * 5 % 63 * 64;
  std::memcpy(fiber->stack, &kMark, sizeof kMark);
  all_.push_back(fiber);
  prepare(fiber);
  return fiber;
}

void Fibers::prepare(Fiber* fiber) { fiber->context = make_fcontext(fiber->stack + fiber->size, fiber->size, start); }

void Fibers::reset() {
  free_ = all_;
  for (Fiber* fiber : all_) {
    std::memcpy(fiber->stack, &kMark, sizeof kMark);
    prepare(fiber);
  }
}

// Both sides pass the fibers and learn where the other stopped.
struct Switch {
  Fibers* fibers;
  Fiber* from;
};

void Fibers::switch_to(Fiber* to) {
  Switch message{this, running_};
  running_ = to;
  const transfer_t back = jump_fcontext(to->context, &message);
  static_cast<Switch*>(back.data)->from->context = back.fctx;
}

void Fibers::start(transfer_t from) {
  const Switch message = *static_cast<Switch*>(from.data);
  message.from->context = from.fctx;
  for (;;) message.fibers->switch_to(message.fibers->body_());
}

bool Fibers::overflowed() const {
  for (const Fiber* fiber : all_)
    if (std::memcmp(fiber->stack, &kMark, sizeof kMark) != 0) return true;
  return false;
}

}  // namespace tessera::cuda_emulator
