// The typed entry points: the toolkit's end in a `const void*`, from which a kernel can't be called.
#pragma once
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

namespace tessera::cuda_emulator {

/// A kernel with its arguments; copied for each launch, read by the kernel's threads.
struct KernelCall {
  KernelCall() = default;
  KernelCall(const KernelCall&) = delete;
  virtual ~KernelCall() = default;
  virtual void run() const = 0;
  virtual std::size_t size() const = 0;  // of the object in bytes: kernels may read there
};

template <typename... P>
class TypedKernelCall final : public KernelCall {
 public:
  template <typename... A>
  explicit TypedKernelCall(void (*kernel)(P...), A&&... args) : kernel_(kernel), arguments_(std::forward<A>(args)...) {}
  void run() const override { std::apply(kernel_, arguments_); }
  std::size_t size() const override { return sizeof *this; }

 private:
  void (*kernel_)(P...);
  std::tuple<std::remove_cv_t<P>...> arguments_;
};

cudaError_t enqueue_kernel(const cudaLaunchConfig_t& config, const void* kernel,
                           std::shared_ptr<const KernelCall> call);

}  // namespace tessera::cuda_emulator

template <typename... P, typename... A>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(P...), A&&... args) {
  using namespace tessera::cuda_emulator;
  return enqueue_kernel(*config, reinterpret_cast<const void*>(kernel),
                        std::make_shared<TypedKernelCall<P...>>(kernel, std::forward<A>(args)...));
}
template <typename... P>
cudaError_t cudaFuncSetAttribute(void (*kernel)(P...), cudaFuncAttribute attribute, int value) {
  return cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), attribute, value);
}
template <typename... P>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, void (*kernel)(P...)) {
  return cudaFuncGetAttributes(attributes, reinterpret_cast<const void*>(kernel));
}
template <typename... P>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void (*kernel)(P...), int threads,
                                                          size_t shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, reinterpret_cast<const void*>(kernel), threads, shared);
}
