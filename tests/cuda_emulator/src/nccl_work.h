#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <nccl.h>
#include <string>
#include <vector>

#include "nccl_shared.h"
#include "streams.h"

namespace tessera::cuda_emulator {

/// What both ends of a transfer must agree on; where they don't, NCCL would hang or mix data up.
struct CallHeader {
  std::array<char, 16> call;
  std::int32_t type, op, root;
  std::int32_t in_windows;  // bits: the source lies in a symmetric window, the target does
  std::uint64_t count;
  bool operator==(const CallHeader&) const = default;
};
CallHeader make_header(const char* call, std::size_t count, ncclDataType_t type, int op = -1, int root = -1);

struct Transfer {
  int peer;
  bool send;
  char* data;
  std::size_t bytes;
  CallHeader header;
  std::size_t done = 0;  // bytes, of the header too
};

/// A rank's end of a communicator.
struct Communicator {
  Communicator(const std::string& name, int rank, int size, int device, bool blocking);

  std::string name;
  int rank, size, device;
  bool blocking;
  SharedRanks shared;
  std::uint64_t splits = 0;
  std::map<std::uintptr_t, std::size_t> windows;  // symmetric ones that are registered: their bytes
  bool in_window(const void* p) const;
  std::atomic<ncclResult_t> error{ncclSuccess};
  std::atomic<bool> aborted{false};
  std::atomic<std::uint64_t> enqueued{0}, finished{0};  // calls: they run in the order in which they were made

  /// Ends at once with the last result of `step`, or, where the communicator doesn't block, after a few polls.
  ncclResult_t begin(std::function<ncclResult_t()> step);
  /// The state that ncclCommGetAsyncError tells.
  ncclResult_t poll();
  bool busy();

 private:
  std::mutex mutex_;
  std::function<ncclResult_t()> pending_;
  int polls_ = 0;
};

/// One call of a communicator, or all calls of a group on one of its streams: data goes to and comes from the peers,
/// then what is left to compute.
struct Work {
  std::shared_ptr<Communicator> comm;
  std::vector<Transfer> transfers;
  std::vector<std::function<void()>> after;

  /// True when it is done. Never waits.
  bool advance();
};

std::size_t size_of(ncclDataType_t type);

/// to[i] = op over the ranks' from[r][i], in their order; bf16 and f16 in f32, rounded once.
void reduce(char* to, const std::vector<const char*>& from, std::size_t count, ncclDataType_t type, ncclRedOp_t op);

}  // namespace tessera::cuda_emulator

struct ncclComm {
  std::shared_ptr<tessera::cuda_emulator::Communicator> ranks;  // queued work may outlive the handle
};
