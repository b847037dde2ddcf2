#include <cstring>

#include "core/error.h"
#include "device/cuda/check.h"
#include "device/cuda/context.h"
#include "device/cuda/index.h"

namespace tessera::device::cuda {
namespace {

constexpr std::size_t kWord = sizeof(std::uint64_t);

}  // namespace

Checks::Checks(cudaStream_t stream) : finds_(device_memory(kMost * kWord)), host_(host_memory(kMost * kWord)) {
  check(cudaMemsetAsync(finds_.get(), 0xFF, kMost * kWord, stream), "cudaMemsetAsync");  // kNothing
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

std::uint64_t* Checks::add(std::function<std::string(std::int64_t, std::int32_t)> sentence) {
  TESSERA_CHECK(sentences_.size() < kMost, "more than {} kernels that check ids or labels", kMost);
  sentences_.push_back(std::move(sentence));
  return static_cast<std::uint64_t*>(finds_.get()) + sentences_.size() - 1;
}

void Checks::fetch(cudaStream_t stream) {
  if (sentences_.empty()) return;
  check(cudaMemcpyAsync(host_.get(), finds_.get(), sentences_.size() * kWord, cudaMemcpyDeviceToHost, stream),
        "cudaMemcpyAsync");
}

void Checks::look() {
  for (std::size_t k = 0; k < sentences_.size(); ++k) {
    std::uint64_t find = 0;
    std::memcpy(&find, static_cast<const std::byte*>(host_.get()) + k * kWord, kWord);
    if (find == kNothing) continue;
    throw Error(ExitCode::kData, sentences_[k](index_of_find(find), value_of_find(find)));
  }
}

}  // namespace tessera::device::cuda
