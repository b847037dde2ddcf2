#include "comm/nccl/nccl_communicator.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "core/box_runs.h"
#include "core/error.h"

namespace tessera::comm {
namespace {

ncclDataType_t to_nccl(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return ncclFloat32;
    case DType::kF64:
      return ncclFloat64;
    case DType::kBF16:
      return ncclBfloat16;
    case DType::kF16:
      return ncclFloat16;
    case DType::kI32:
      return ncclInt32;
    case DType::kI64:
      return ncclInt64;
    case DType::kU8:
    case DType::kBool:
      return ncclUint8;
  }
  fail(ExitCode::kInternal, "internal error: NCCL has no type for {}", to_string(dtype));
}

/// A maximum of NaN and numbers is one of the numbers: what depends on it reads the NaN itself too.
ncclRedOp_t to_nccl(Reduce reduce) { return reduce == Reduce::kMax ? ncclMax : ncclSum; }

std::size_t count_of(std::int64_t count) { return static_cast<std::size_t>(count); }

/// A box between its place in a tensor and packed memory; both on the device.
void copy_box(const BoxTransfer& transfer, std::int64_t size, std::byte* tensor, std::byte* packed, bool pack,
              cudaStream_t stream) {
  const BoxRuns runs(transfer.tensor, transfer.box);
  if (runs.count() == 0 || runs.length() == 0) return;
  const auto width = count_of(runs.length() * size);
  const auto rows = runs.neighbours();
  for (std::int64_t k = 0; k < runs.count(); k += rows) {
    auto* in_tensor = tensor + runs.start(k) * size;
    auto* in_packed = packed + k * runs.length() * size;
    const auto pitch = rows > 1 ? count_of(runs.stride() * size) : width;
    check(pack ? cudaMemcpy2DAsync(in_packed, width, in_tensor, pitch, width, count_of(rows), cudaMemcpyDeviceToDevice,
                                   stream)
               : cudaMemcpy2DAsync(in_tensor, pitch, in_packed, width, width, count_of(rows), cudaMemcpyDeviceToDevice,
                                   stream),
          "cudaMemcpy2DAsync");
  }
}

}  // namespace

ExchangeMemory::~ExchangeMemory() { (void)cudaFree(own_); }

void ExchangeMemory::use(void* memory, std::int64_t bytes) {
  given_ = static_cast<std::byte*>(memory);
  given_bytes_ = bytes;
}

std::byte* ExchangeMemory::at_least(std::int64_t bytes) {
  if (bytes <= given_bytes_) return given_;
  if (bytes > own_bytes_) {
    check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    check(cudaFree(own_), "cudaFree");
    check(cudaMalloc(&own_, count_of(bytes)), "cudaMalloc");
    own_bytes_ = bytes;
  }
  return static_cast<std::byte*>(own_);
}

NcclCommunicator::NcclCommunicator(int rank, int size, const ncclUniqueId& id, const std::string& name, Shared& shared)
    : rank_(rank), size_(size), shared_(shared) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.commName = name.c_str();
  if (shared.most_blocks > 0) config.maxCTAs = shared.most_blocks;
  settle(ncclCommInitRankConfig(&comm_, size, id, rank, &config), "ncclCommInitRankConfig");
}

NcclCommunicator::~NcclCommunicator() {
  if (comm_ == nullptr) return;
  if (window_ != nullptr) deregister_window(comm_, window_);
  (void)ncclCommDestroy(comm_);
}

// A call may return before it has queued its work; only then may an event be recorded behind it.
void NcclCommunicator::settle(ncclResult_t result, const char* call) const {
  const auto start = std::chrono::steady_clock::now();
  while (result == ncclSuccess || result == ncclInProgress) {
    check(ncclCommGetAsyncError(comm_, &result), "ncclCommGetAsyncError");
    if (result == ncclSuccess) return;
    if (result != ncclInProgress) break;
    std::this_thread::sleep_for(std::chrono::microseconds(20));
    shared_.look(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  try {
    check(result, call);
  } catch (const Error& error) {
    fail(error.code(), "{}: {}", shared_.doing(), error.what());
  }
}

template <typename Call>
void NcclCommunicator::grouped(const char* name, Call call) const {
  check(ncclGroupStart(), "ncclGroupStart");
  call();
  settle(ncclGroupEnd(), name);
}

void NcclCommunicator::all_reduce(const std::vector<Piece>& pieces, DType dtype, Reduce reduce) {
  if (size_ > 1) add_call(shared_.counters, Kind::kAllReduce, bytes_in(pieces, dtype, 1), size_);
  grouped("ncclAllReduce", [&] {
    for (const auto& p : pieces)
      if (p.count > 0)
        check(ncclAllReduce(p.in, p.out, count_of(p.count), to_nccl(dtype), to_nccl(reduce), comm_, shared_.stream),
              "ncclAllReduce");
  });
}

void NcclCommunicator::reduce_scatter(const std::vector<Piece>& pieces, DType dtype, Reduce reduce) {
  if (size_ > 1) add_call(shared_.counters, Kind::kReduceScatter, bytes_in(pieces, dtype, size_), size_);
  grouped("ncclReduceScatter", [&] {
    for (const auto& p : pieces)
      if (p.count > 0)
        check(ncclReduceScatter(p.in, p.out, count_of(p.count / size_), to_nccl(dtype), to_nccl(reduce), comm_,
                                shared_.stream),
              "ncclReduceScatter");
  });
}

void NcclCommunicator::all_gather(const std::vector<Piece>& pieces, DType dtype) {
  if (size_ > 1) add_call(shared_.counters, Kind::kAllGather, bytes_in(pieces, dtype, 1), size_);
  grouped("ncclAllGather", [&] {
    for (const auto& p : pieces)
      if (p.count > 0)
        check(ncclAllGather(p.in, p.out, count_of(p.count), to_nccl(dtype), comm_, shared_.stream), "ncclAllGather");
  });
}

void NcclCommunicator::all_to_all(const std::vector<Piece>& pieces, DType dtype) {
  if (size_ > 1) add_call(shared_.counters, Kind::kAllToAll, bytes_in(pieces, dtype, size_), size_);
  grouped("ncclSend and ncclRecv", [&] {
    for (const auto& p : pieces) {
      const auto chunk = p.count / size_;
      if (chunk == 0) continue;
      for (int peer = 0; peer < size_; ++peer) {
        const auto at = peer * chunk * size_of(dtype);
        check(ncclSend(static_cast<const std::byte*>(p.in) + at, count_of(chunk), to_nccl(dtype), peer, comm_,
                       shared_.stream),
              "ncclSend");
        check(
            ncclRecv(static_cast<std::byte*>(p.out) + at, count_of(chunk), to_nccl(dtype), peer, comm_, shared_.stream),
            "ncclRecv");
      }
    }
  });
}

// Boxes are packed, sent and unpacked; the own ones take the same way. A box that goes to several peers is packed once.
void NcclCommunicator::box_exchange(const void* in, const std::vector<BoxTransfer>& sends, void* out,
                                    const std::vector<BoxTransfer>& receives, DType dtype) {
  if (size_ > 1) add_box_exchange(shared_.counters, receives, dtype, rank_);
  const auto size = size_of(dtype);
  const auto bytes_of = [&](const BoxTransfer& transfer) { return elements(transfer.box.size) * size; };
  std::int64_t sent = 0, received = 0;
  places_.clear();
  for (const auto& send : sends) {
    const auto same = std::find_if(sends.begin(), sends.begin() + std::ssize(places_),
                                   [&](const BoxTransfer& other) { return other.box == send.box; });
    const bool first = same == sends.begin() + std::ssize(places_);
    places_.push_back(first ? sent : places_[static_cast<std::size_t>(same - sends.begin())]);
    if (first) sent += bytes_of(send);
  }
  for (const auto& receive : receives) received += bytes_of(receive);
  if (sent + received == 0) return;
  auto* packed = shared_.exchange.at_least(sent + received);
  std::int64_t end = 0;
  for (std::size_t k = 0; k < sends.size(); ++k) {
    if (places_[k] < end || bytes_of(sends[k]) == 0) continue;
    copy_box(sends[k], size, static_cast<std::byte*>(const_cast<void*>(in)), packed + places_[k], true, shared_.stream);
    end = places_[k] + bytes_of(sends[k]);
  }
  grouped("ncclSend and ncclRecv", [&] {
    for (std::size_t k = 0; k < sends.size(); ++k)
      if (const auto bytes = bytes_of(sends[k]); bytes > 0)
        check(ncclSend(packed + places_[k], count_of(bytes), ncclUint8, sends[k].peer, comm_, shared_.stream),
              "ncclSend");
    auto* place = packed + sent;
    for (const auto& receive : receives) {
      if (const auto bytes = bytes_of(receive); bytes > 0)
        check(ncclRecv(place, count_of(bytes), ncclUint8, receive.peer, comm_, shared_.stream), "ncclRecv");
      place += bytes_of(receive);
    }
  });
  auto* place = packed + sent;
  for (const auto& receive : receives) {
    copy_box(receive, size, static_cast<std::byte*>(out), place, false, shared_.stream);
    place += bytes_of(receive);
  }
}

void NcclCommunicator::barrier() {
  auto* word = shared_.exchange.at_least(sizeof(std::int32_t));
  settle(ncclAllReduce(word, word, 1, ncclInt32, ncclMax, comm_, shared_.stream), "ncclAllReduce");
}

void NcclCommunicator::register_window(void* memory, std::int64_t bytes) {
  settle(comm::register_window(comm_, memory, count_of(bytes), &window_), "ncclCommWindowRegister");
}

ncclResult_t NcclCommunicator::error() const {
  auto result = ncclSuccess;
  check(ncclCommGetAsyncError(comm_, &result), "ncclCommGetAsyncError");
  return result == ncclInProgress ? ncclSuccess : result;
}

void NcclCommunicator::abort() {
  if (comm_ != nullptr) (void)ncclCommAbort(comm_);
  comm_ = nullptr;
}

}  // namespace tessera::comm
