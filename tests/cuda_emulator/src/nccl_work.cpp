#include "nccl_work.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <thread>
#include <utility>

#include "fault.h"

namespace tessera::cuda_emulator {
namespace {

constexpr int kPolls = 2;  // that tell of progress before a call of a non-blocking communicator is done
constexpr auto kNap = std::chrono::microseconds(50);

void copy_in(Ring& ring, std::uint64_t place, const char* from, std::size_t n) {
  const std::size_t start = place % Ring::kSize, first = std::min(n, Ring::kSize - start);
  std::memcpy(ring.bytes.data() + start, from, first);
  std::memcpy(ring.bytes.data(), from + first, n - first);
}
void copy_out(const Ring& ring, std::uint64_t place, char* to, std::size_t n) {
  const std::size_t start = place % Ring::kSize, first = std::min(n, Ring::kSize - start);
  std::memcpy(to, ring.bytes.data() + start, first);
  std::memcpy(to + first, ring.bytes.data(), n - first);
}

std::string describe(const CallHeader& h) {
  constexpr std::array kWindows{"", ", the source in a window", ", the target in a window", ", in windows"};
  return std::string(h.call.data()) + " of " + std::to_string(h.count) + " elements" +
         kWindows[std::size_t(h.in_windows)];
}

// The header goes ahead of the data, whole. False: no room, nothing there, or a header that isn't ours.
bool move_header(Communicator& c, Transfer& t, Ring& ring) {
  const std::uint64_t head = ring.head, tail = ring.tail;
  const std::size_t room = t.send ? Ring::kSize - (head - tail) : head - tail;
  if (room < sizeof(CallHeader)) return false;
  if (t.send) {
    copy_in(ring, head, reinterpret_cast<const char*>(&t.header), sizeof t.header);
    ring.head = head + sizeof t.header;
  } else {
    CallHeader other;
    copy_out(ring, tail, reinterpret_cast<char*>(&other), sizeof other);
    if (!(other == t.header)) {
      fault("NCCL: rank " + std::to_string(t.peer) + " called " + describe(other) + " where rank " +
            std::to_string(c.rank) + " called " + describe(t.header));
      c.shared.tell_found();
      c.error = ncclInvalidUsage;
      return false;
    }
    ring.tail = tail + sizeof t.header;
  }
  t.done = sizeof t.header;
  return true;
}

// As much as there is room or data for.
void move(Communicator& c, Transfer& t) {
  Ring& ring = t.send ? c.shared.ring(c.rank, t.peer) : c.shared.ring(t.peer, c.rank);
  if (t.done == 0 && !move_header(c, t, ring)) return;
  const std::size_t moved = t.done - sizeof(CallHeader);
  const std::uint64_t head = ring.head, tail = ring.tail;
  const std::size_t n = std::min(t.bytes - moved, t.send ? Ring::kSize - (head - tail) : head - tail);
  if (t.send) {
    copy_in(ring, head, t.data + moved, n);
    ring.head = head + n;
  } else {
    copy_out(ring, tail, t.data + moved, n);
    ring.tail = tail + n;
  }
  t.done += n;
}

}  // namespace

CallHeader make_header(const char* call, std::size_t count, ncclDataType_t type, int op, int root) {
  CallHeader h{};
  std::snprintf(h.call.data(), h.call.size(), "%s", call);
  h.type = type, h.op = op, h.root = root, h.count = count;
  return h;
}

Communicator::Communicator(const std::string& name_, int rank_, int size_, int device_, bool blocking_)
    : name(name_), rank(rank_), size(size_), device(device_), blocking(blocking_), shared(name_, rank_, size_) {}

bool Communicator::in_window(const void* p) const {
  const auto next = windows.upper_bound(reinterpret_cast<std::uintptr_t>(p));
  if (next == windows.begin()) return false;
  const auto& [start, size_of_window] = *std::prev(next);
  return reinterpret_cast<std::uintptr_t>(p) < start + size_of_window;
}

ncclResult_t Communicator::begin(std::function<ncclResult_t()> step) {
  if (blocking) {
    ncclResult_t result;
    while ((result = step()) == ncclInProgress) std::this_thread::sleep_for(kNap);
    return result;
  }
  const std::lock_guard lock(mutex_);
  pending_ = std::move(step);
  polls_ = kPolls;
  return ncclInProgress;
}

ncclResult_t Communicator::poll() {
  const std::lock_guard lock(mutex_);
  if (!pending_ || error != ncclSuccess) return error;
  if (polls_-- > 0) return ncclInProgress;
  const ncclResult_t result = pending_();
  if (result == ncclInProgress) return result;
  pending_ = nullptr;
  if (error == ncclSuccess) error = result;  // the call itself may have left one
  return error;
}

bool Communicator::busy() {
  const std::lock_guard lock(mutex_);
  return pending_ != nullptr;
}

bool Work::advance() {
  if (comm->aborted) return true;
  if (comm->error != ncclSuccess) return false;
  // Between two ranks the order of the transfers is that of the calls.
  bool all = true;
  std::array<std::array<bool, SharedRanks::kMaxRanks>, 2> blocked{};
  for (Transfer& t : transfers) {
    const std::size_t total = sizeof(CallHeader) + t.bytes;
    bool& wait = blocked[t.send ? 1 : 0][std::size_t(t.peer)];
    if (t.done < total && !wait) move(*comm, t);
    if (t.done < total) wait = true, all = false;
  }
  if (!all) {
    if (const int finder = comm->shared.found_by(); finder >= 0 && comm->error == ncclSuccess) {
      fault("NCCL: rank " + std::to_string(finder) + " found calls that differ from its own");
      comm->error = ncclInvalidUsage;
    }
    return false;
  }
  for (const auto& f : after) f();
  return true;
}

}  // namespace tessera::cuda_emulator
