// The collectives as lists of transfers. Calls of a group on one stream run together, as NCCL's do.
#include <algorithm>
#include <nccl.h>
#include <utility>

#include "capture.h"
#include "fault.h"
#include "memory.h"
#include "nccl_order.h"
#include "settings.h"
#include "traffic.h"

using namespace tessera::cuda_emulator;

namespace {

struct Call {
  std::shared_ptr<Communicator> comm;
  cudaStream_t stream;
  std::function<void(Work&)> build;
};

/// What a thread has called since ncclGroupStart.
struct Group {
  int depth = 0;
  std::vector<Call> calls;
};
thread_local Group group;

struct Batch {
  std::shared_ptr<Communicator> comm;
  cudaStream_t stream;
  std::vector<std::function<void(Work&)>> builds;
};

Poll make_poll(const Batch& batch) {
  if (fails_now(Failure::kNccl)) batch.comm->error = ncclRemoteError;
  auto work = std::make_shared<Work>(Work{batch.comm, {}, {}});
  for (const auto& build : batch.builds) build(*work);
  return [work, turn = batch.comm->enqueued++] {
    Communicator& c = *work->comm;
    if (c.finished != turn && !c.aborted) return false;
    if (!work->advance()) return false;
    ++c.finished;
    add_collective();
    return true;
  };
}

ncclResult_t put(const Batch& batch) {
  const bool captured = capture_of(batch.stream) != nullptr;
  if (!captured) launch_order().check(batch.comm.get(), batch.stream);
  const cudaError_t error = enqueue(batch.stream, {"nccl", [batch] { return make_poll(batch); }});
  if (!captured && error == cudaSuccess) launch_order().add(batch.comm.get(), batch.stream);
  return error == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t flush(std::vector<Call> calls) {
  std::vector<Batch> batches;
  for (Call& c : calls) {
    auto i = std::find_if(batches.begin(), batches.end(),
                          [&](const Batch& b) { return b.stream == c.stream && b.comm == c.comm; });
    if (i == batches.end()) i = batches.insert(i, {c.comm, c.stream, {}});
    i->builds.push_back(std::move(c.build));
  }
  ncclResult_t result = ncclSuccess;
  for (const Batch& batch : batches) {
    if (batch.comm->busy()) return ncclInvalidUsage;
    if (!batch.comm->blocking) ++batch.stream->in_progress;
    const ncclResult_t state = batch.comm->begin([batch] {
      if (!batch.comm->blocking) --batch.stream->in_progress;
      return put(batch);
    });
    if (state != ncclSuccess) result = state;
  }
  return result;
}

using Buffer = std::pair<const void*, std::size_t>;  // bytes

ncclResult_t submit(ncclComm_t comm, cudaStream_t stream, std::initializer_list<Buffer> buffers,
                    std::function<void(Work&)> build) {
  const auto& c = comm->ranks;
  if (c->error != ncclSuccess) return c->error;
  if (stream == nullptr) {
    misuse("NCCL: a call on the default stream, which waits for other streams");
    return ncclInvalidArgument;
  }
  for (const auto& [p, size] : buffers)
    if (refused("NCCL", check_range(p, size, c->device))) return ncclInvalidArgument;
  group.calls.push_back({c, stream, std::move(build)});
  return group.depth > 0 ? ncclSuccess : flush(std::exchange(group.calls, {}));
}

// All ranks' buffers lie in windows, or none's: it decides which of NCCL's kernels run.
CallHeader mark_windows(CallHeader header, const Communicator& c, const void* from, const void* to) {
  header.in_windows = (c.in_window(from) ? 1 : 0) | (c.in_window(to) ? 2 : 0);
  return header;
}

char* bytes_at(const void* p, std::size_t offset = 0) { return static_cast<char*>(const_cast<void*>(p)) + offset; }

// Every rank gets, of every rank's data, what it will reduce: all of it, or its own part.
void add_reduction(Work& work, const CallHeader& call, const void* from, void* to, bool scatter) {
  const Communicator& c = *work.comm;
  const CallHeader header = mark_windows(call, c, from, to);
  const auto type = static_cast<ncclDataType_t>(header.type);
  const auto op = static_cast<ncclRedOp_t>(header.op);
  const std::size_t count = header.count, bytes = count * size_of(type);
  auto parts = std::make_shared<std::vector<std::vector<char>>>(c.size, std::vector<char>(bytes));
  for (int r = 0; r < c.size; ++r) {
    work.transfers.push_back({r, true, bytes_at(from, scatter ? std::size_t(r) * bytes : 0), bytes, header});
    work.transfers.push_back({r, false, (*parts)[std::size_t(r)].data(), bytes, header});
  }
  work.after.emplace_back([=] {
    std::vector<const char*> data;
    for (const auto& part : *parts) data.push_back(part.data());
    reduce(bytes_at(to), data, count, type, op);
  });
}

}  // namespace

extern "C" {

ncclResult_t ncclGroupStart() {
  ++group.depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (group.depth == 0) return ncclInvalidUsage;
  return --group.depth > 0 ? ncclSuccess : flush(std::exchange(group.calls, {}));
}

ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  const std::size_t bytes = count * size_of(type);
  return submit(comm, stream, {{from, bytes}, {to, bytes}},
                [=](Work& w) { add_reduction(w, make_header("AllReduce", count, type, op), from, to, false); });
}

ncclResult_t ncclReduceScatter(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
  const std::size_t bytes = count * size_of(type);
  return submit(comm, stream, {{from, bytes * std::size_t(comm->ranks->size)}, {to, bytes}},
                [=](Work& w) { add_reduction(w, make_header("ReduceScatter", count, type, op), from, to, true); });
}

ncclResult_t ncclAllGather(const void* from, void* to, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  const std::size_t bytes = count * size_of(type);
  return submit(comm, stream, {{from, bytes}, {to, bytes * std::size_t(comm->ranks->size)}}, [=](Work& w) {
    const CallHeader header = mark_windows(make_header("AllGather", count, type), *w.comm, from, to);
    for (int r = 0; r < w.comm->size; ++r) {
      w.transfers.push_back({r, true, bytes_at(from), bytes, header});
      w.transfers.push_back({r, false, bytes_at(to, std::size_t(r) * bytes), bytes, header});
    }
  });
}

ncclResult_t ncclBroadcast(const void* from, void* to, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  const std::size_t bytes = count * size_of(type);
  if (root < 0 || root >= comm->ranks->size) return ncclInvalidArgument;
  return submit(comm, stream, {{to, bytes}, {comm->ranks->rank == root ? from : to, bytes}}, [=](Work& w) {
    const CallHeader header = make_header("Broadcast", count, type, -1, root);
    if (w.comm->rank == root)
      for (int r = 0; r < w.comm->size; ++r) w.transfers.push_back({r, true, bytes_at(from), bytes, header});
    w.transfers.push_back({root, false, bytes_at(to), bytes, header});
  });
}

ncclResult_t ncclSend(const void* from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  const std::size_t bytes = count * size_of(type);
  if (peer < 0 || peer >= comm->ranks->size) return ncclInvalidArgument;
  return submit(comm, stream, {{from, bytes}}, [=](Work& w) {
    w.transfers.push_back({peer, true, bytes_at(from), bytes, make_header("Send/Recv", count, type)});
  });
}

ncclResult_t ncclRecv(void* to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  const std::size_t bytes = count * size_of(type);
  if (peer < 0 || peer >= comm->ranks->size) return ncclInvalidArgument;
  return submit(comm, stream, {{to, bytes}}, [=](Work& w) {
    w.transfers.push_back({peer, false, bytes_at(to), bytes, make_header("Send/Recv", count, type)});
  });
}

}  // extern "C"
