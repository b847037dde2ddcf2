#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "nccl_work.h"

namespace tessera::cuda_emulator {

/// Where each communicator's last call stands. Calls of two communicators that may run at once, on two streams, can
/// wait for each other where two ranks' devices start them in different orders; unless NCCL keeps the order of the
/// calls (NCCL_LAUNCH_ORDER_IMPLICIT=1).
class LaunchOrder {
 public:
  /// A fault if the next call of `comm` on the stream may run beside another communicator's.
  void check(const Communicator* comm, cudaStream_t stream) const;
  void add(const Communicator* comm, cudaStream_t stream);
  void forget(const Communicator* comm);

 private:
  struct Place {
    cudaStream_t stream;
    std::uint64_t place;
  };
  mutable std::mutex mutex_;
  std::map<const Communicator*, Place> last_;
};

LaunchOrder& launch_order();

}  // namespace tessera::cuda_emulator
