#include "nccl_order.h"

#include <cstdlib>
#include <string_view>

#include "fault.h"

namespace tessera::cuda_emulator {

LaunchOrder& launch_order() {
  static LaunchOrder order;
  return order;
}

void LaunchOrder::check(const Communicator* comm, cudaStream_t stream) const {
  const char* implicit = std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT");
  if (implicit != nullptr && std::string_view(implicit) == "1") return;
  const std::lock_guard lock(mutex_);
  for (const auto& [other, last] : last_)
    if (other != comm && !scheduler().is_ordered_after(stream, last.stream, last.place))
      misuse(
          "NCCL: calls of two communicators may run at once, on two streams: use one stream, or set "
          "NCCL_LAUNCH_ORDER_IMPLICIT=1");
}

void LaunchOrder::add(const Communicator* comm, cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  last_[comm] = {stream, stream->issued};
}

void LaunchOrder::forget(const Communicator* comm) {
  const std::lock_guard lock(mutex_);
  last_.erase(comm);
}

}  // namespace tessera::cuda_emulator
