#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/counting.h"
#include "comm/nccl/check.h"
#include "comm/nccl/window.h"

namespace tessera::comm {

/// Where boxes lie packed while they travel, on the device. Grows where it must, which waits for the stream.
class ExchangeMemory {
 public:
  explicit ExchangeMemory(cudaStream_t stream) : stream_(stream) {}
  ExchangeMemory(const ExchangeMemory&) = delete;
  ExchangeMemory& operator=(const ExchangeMemory&) = delete;
  ~ExchangeMemory();

  void use(void* memory, std::int64_t bytes);
  std::byte* at_least(std::int64_t bytes);

 private:
  cudaStream_t stream_;
  std::byte* given_ = nullptr;
  std::int64_t given_bytes_ = 0;
  void* own_ = nullptr;
  std::int64_t own_bytes_ = 0;
};

/// A group of GPUs. Calls queue on one stream and return.
class NcclCommunicator final : public Communicator {
 public:
  /// What the communicators of a world share.
  struct Shared {
    cudaStream_t stream;
    ExchangeMemory exchange;
    Counters counters;
    int most_blocks = 0;
    /// Looks at the peers while a call is in progress for so many seconds; throws Error (peer lost).
    std::function<void(double seconds)> look;
    /// "all_reduce of dense_1/kernel's gradient (instruction 412, step 88)"
    std::function<std::string()> doing;

    explicit Shared(cudaStream_t s) : stream(s), exchange(s) {}
  };

  /// Collective over the group. `name` shows in NCCL's own log.
  NcclCommunicator(int rank, int size, const ncclUniqueId& id, const std::string& name, Shared& shared);
  ~NcclCommunicator() override;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void all_reduce(const std::vector<Piece>& pieces, DType dtype, Reduce reduce) override;
  void reduce_scatter(const std::vector<Piece>& pieces, DType dtype, Reduce reduce) override;
  void all_gather(const std::vector<Piece>& pieces, DType dtype) override;
  void all_to_all(const std::vector<Piece>& pieces, DType dtype) override;
  void box_exchange(const void* in, const std::vector<BoxTransfer>& sends, void* out,
                    const std::vector<BoxTransfer>& receives, DType dtype) override;
  void barrier() override;

  /// Collective: memory at the same offset on all ranks that collectives may run on without a copy.
  void register_window(void* memory, std::int64_t bytes);

  /// The error of a queued collective, or ncclSuccess.
  ncclResult_t error() const;
  /// Ends what has been queued, at once; nothing may be called afterwards.
  void abort();

 private:
  void settle(ncclResult_t result, const char* call) const;
  template <typename Call>
  void grouped(const char* name, Call call) const;

  int rank_, size_;
  Shared& shared_;
  ncclComm_t comm_ = nullptr;
  Window window_ = nullptr;
  std::vector<std::int64_t> places_;  // of the boxes of an exchange in the packed memory
};

}  // namespace tessera::comm
