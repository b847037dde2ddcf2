// Communicators between the processes of one host, and what is registered with them.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <memory>
#include <nccl.h>
#include <unistd.h>

#include "device.h"
#include "fault.h"
#include "memory.h"
#include "nccl_order.h"
#include "thread_state.h"

using namespace tessera::cuda_emulator;

namespace {

// Two ranks can't share a device.
ncclResult_t check_devices(Communicator& c) {
  for (int r = 0; r < c.size; ++r)
    if (r != c.rank && c.shared.posted_by(r)[0] == c.device) {
      misuse("NCCL: ranks " + std::to_string(c.rank) + " and " + std::to_string(r) + " have the same device " +
             std::to_string(c.device));
      return ncclInvalidUsage;
    }
  return ncclSuccess;
}

// A communicator whose ranks meet under that name.
ncclResult_t open(ncclComm_t* out, const std::string& name, int size, int rank, bool blocking) {
  *out = nullptr;
  if (device_error() != cudaSuccess) return ncclUnhandledCudaError;
  if (size < 1 || size > SharedRanks::kMaxRanks || rank < 0 || rank >= size) return ncclInvalidArgument;
  auto c = std::make_shared<Communicator>(name, rank, size, this_thread.device, blocking);
  if (!c->shared.ok()) return ncclSystemError;
  c->shared.post({c->device});
  *out = new ncclComm{c};
  return c->begin([c = c.get()] {
    if (c->aborted) return ncclInvalidUsage;
    if (!c->shared.all_posted()) return ncclInProgress;
    c->shared.unlink();
    return check_devices(*c);
  });
}

bool blocks(const ncclConfig_t* config, bool otherwise) {
  return config == nullptr || config->blocking == NCCL_CONFIG_UNDEF_INT ? otherwise : config->blocking != 0;
}

bool is_valid(const ncclConfig_t* config) { return config == nullptr || config->magic == 0xcafebeef; }

// The ranks of c that chose the same color, by key; this one's place among them.
std::pair<int, int> size_and_rank(const Communicator& c) {
  const auto mine = c.shared.posted_by(c.rank);
  int size = 0, rank = 0;
  for (int r = 0; r < c.size; ++r) {
    const auto other = c.shared.posted_by(r);
    if (other[0] != mine[0]) continue;
    ++size;
    rank += other[1] < mine[1] || (other[1] == mine[1] && r < c.rank);
  }
  return {size, rank};
}

struct Registration {
  std::shared_ptr<Communicator> comm;
  std::uintptr_t start;
};

// All ranks' windows must lie at the same offset of their allocations, as a kernel on one rank computes addresses of
// all.
ncclResult_t check_windows(Communicator& c) {
  const auto mine = c.shared.posted_by(c.rank);
  for (int r = 0; r < c.size; ++r) {
    const auto other = c.shared.posted_by(r);
    if (other == mine) continue;
    misuse("ncclCommWindowRegister: rank " + std::to_string(r) + " registers " + std::to_string(other[1]) +
           " bytes at offset " + std::to_string(other[0]) + ", rank " + std::to_string(c.rank) + " " +
           std::to_string(mine[1]) + " at " + std::to_string(mine[0]));
    return ncclInvalidUsage;
  }
  return ncclSuccess;
}

std::string check_window(const void* p, std::size_t size) {
  if (std::string wrong = check_range(p, size, this_thread.device); !wrong.empty()) return wrong;
  if (find_allocation(p).use != Use::kWindow) return "the memory isn't ncclMemAlloc's";
  if (reinterpret_cast<std::uintptr_t>(p) % NCCL_WIN_REQUIRED_ALIGNMENT != 0) return "not aligned to 4,096 bytes";
  return "";
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclSystemError:
      return "unhandled system error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "internal error";
  }
}
const char* ncclGetLastError(ncclComm_t) { return ""; }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static std::atomic<int> count{0};
  *id = {};
  std::snprintf(id->internal, sizeof id->internal, "/cuda_emulator_%d_%d_%lx", int(getpid()), count++,
                long(std::time(nullptr)));
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank, ncclConfig_t* config) {
  if (!is_valid(config)) return ncclInvalidArgument;
  return open(comm, id.internal, size, rank, blocks(config, true));
}
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int size, ncclUniqueId id, int rank) {
  return ncclCommInitRankConfig(comm, size, id, rank, nullptr);
}

// Non-blocking, the new handle appears when ncclCommGetAsyncError of the old one tells of success.
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* out, ncclConfig_t* config) {
  if (!is_valid(config)) return ncclInvalidArgument;
  const auto c = comm->ranks;
  if (c->busy()) return ncclInvalidUsage;
  *out = nullptr;
  c->shared.post({color, key});
  const std::string name = c->name + "_" + std::to_string(++c->splits) + "_" + std::to_string(color);
  const bool block = blocks(config, c->blocking);
  return c->begin([=, c = c.get()] {
    if (!c->shared.all_posted()) return c->aborted ? ncclInvalidUsage : ncclInProgress;
    if (color == NCCL_SPLIT_NOCOLOR) return ncclSuccess;
    const auto [size, rank] = size_and_rank(*c);
    const ncclResult_t result = open(out, name, size, rank, block);
    return result == ncclInProgress ? ncclSuccess : result;
  });
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* size) {
  *size = comm->ranks->size;
  return ncclSuccess;
}
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  *rank = comm->ranks->rank;
  return ncclSuccess;
}
ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
  *device = comm->ranks->device;
  return ncclSuccess;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  *error = comm->ranks->poll();
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  comm->ranks->aborted = true;
  launch_order().forget(comm->ranks.get());
  delete comm;
  return ncclSuccess;
}
ncclResult_t ncclCommFinalize(ncclComm_t) { return ncclSuccess; }
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  cudaDeviceSynchronize();
  launch_order().forget(comm->ranks.get());
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclMemAlloc(void** p, size_t size) {
  if (device_error() != cudaSuccess) return ncclUnhandledCudaError;
  *p = allocate(size, Use::kWindow);
  return *p == nullptr ? ncclUnhandledCudaError : ncclSuccess;
}
ncclResult_t ncclMemFree(void* p) { return cudaFree(p) == cudaSuccess ? ncclSuccess : ncclInvalidArgument; }

ncclResult_t ncclCommRegister(const ncclComm_t comm, void* p, size_t size, void** handle) {
  if (refused("ncclCommRegister", check_range(p, size, comm->ranks->device))) return ncclInvalidArgument;
  *handle = new Registration{comm->ranks, reinterpret_cast<std::uintptr_t>(p)};
  return ncclSuccess;
}
ncclResult_t ncclCommDeregister(const ncclComm_t, void* handle) {
  delete static_cast<Registration*>(handle);
  return ncclSuccess;
}

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* p, size_t size, ncclWindow_t* window, int flags) {
  const auto c = comm->ranks;
  if (c->busy()) return ncclInvalidUsage;
  if (refused("ncclCommWindowRegister", check_window(p, size))) return ncclInvalidArgument;
  const auto offset = std::int64_t(reinterpret_cast<std::uintptr_t>(p) - find_allocation(p).start);
  c->shared.post({offset, std::int64_t(size), flags});
  const auto start = reinterpret_cast<std::uintptr_t>(p);
  *window = reinterpret_cast<ncclWindow_t>(new Registration{c, start});
  return c->begin([=, c = c.get()] {
    if (!c->shared.all_posted()) return c->aborted ? ncclInvalidUsage : ncclInProgress;
    const ncclResult_t result = check_windows(*c);
    if (result == ncclSuccess && (flags & NCCL_WIN_COLL_SYMMETRIC) != 0) c->windows[start] = size;
    return result;
  });
}
ncclResult_t ncclCommWindowDeregister(ncclComm_t, ncclWindow_t window) {
  const std::unique_ptr<Registration> registration(reinterpret_cast<Registration*>(window));
  registration->comm->windows.erase(registration->start);
  return ncclSuccess;
}

}  // extern "C"
