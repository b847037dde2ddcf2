#include "device/harness.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include "device/cpu.h"
#include "support/test_device.h"

namespace tessera::device::test {
namespace {

void store(const Tensor& t, void* memory) {
  for (std::int64_t i = 0; i < t.size(); ++i) switch (t.dtype) {
      case DType::kF32:
        static_cast<float*>(memory)[i] = static_cast<float>(t[i]);
        break;
      case DType::kF64:
        static_cast<double*>(memory)[i] = t[i];
        break;
      case DType::kI32:
        static_cast<std::int32_t*>(memory)[i] = static_cast<std::int32_t>(t[i]);
        break;
      case DType::kI64:
        static_cast<std::int64_t*>(memory)[i] = static_cast<std::int64_t>(t[i]);
        break;
      case DType::kU8:
      case DType::kBool:
        static_cast<std::uint8_t*>(memory)[i] = static_cast<std::uint8_t>(t[i]);
        break;
      case DType::kBF16:
      case DType::kF16:
        static_cast<std::uint16_t*>(memory)[i] = static_cast<std::uint16_t>(t[i]);
        break;  // bits
    }
}

double load(DType dtype, const void* memory, std::int64_t i) {
  switch (dtype) {
    case DType::kF32:
      return static_cast<const float*>(memory)[i];
    case DType::kF64:
      return static_cast<const double*>(memory)[i];
    case DType::kI32:
      return static_cast<const std::int32_t*>(memory)[i];
    case DType::kI64:
      return static_cast<double>(static_cast<const std::int64_t*>(memory)[i]);
    case DType::kU8:
    case DType::kBool:
      return static_cast<const std::uint8_t*>(memory)[i];
    case DType::kBF16:
    case DType::kF16:
      return static_cast<const std::uint16_t*>(memory)[i];
  }
  return 0;
}

TensorSpec tensor_spec(const Operand& o) { return {o.tensor.shape, o.tensor.dtype, o.global, o.start}; }

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

void expect_near(const KernelCase& c, const std::vector<Tensor>& got, const std::string& how) {
  for (std::size_t k = 0; k < got.size(); ++k) {
    const auto& want = c.expected[k].tensor;
    for (std::int64_t i = 0; i < want.size(); ++i) {
      if (same(got[k][i], want[i])) continue;
      const auto allowed = c.tolerance * (std::fabs(want[i]) + c.scale);
      if (!(std::fabs(got[k][i] - want[i]) <= allowed)) {
        ADD_FAILURE() << c.name << " " << to_string(c.attributes) << " " << how << ": output " << k << " "
                      << to_string(want.shape) << "[" << i << "] is " << got[k][i] << ", not " << want[i];
        return;
      }
    }
  }
}

void expect_equal(const KernelCase& c, const std::vector<Tensor>& a, const std::vector<Tensor>& b,
                  const std::string& how) {
  for (std::size_t k = 0; k < a.size(); ++k)
    for (std::int64_t i = 0; i < a[k].size(); ++i)
      if (!same(a[k][i], b[k][i])) {
        ADD_FAILURE() << c.name << " " << to_string(c.attributes) << " " << how << ": output " << k << "[" << i
                      << "] differs by " << a[k][i] - b[k][i];
        return;
      }
}

}  // namespace

KernelSpec spec_of(const KernelCase& c) {
  KernelSpec spec{c.name, {}, {}, c.attributes};
  for (const auto& o : c.inputs) spec.inputs.push_back(tensor_spec(o));
  for (const auto& o : c.expected) spec.outputs.push_back(tensor_spec(o));
  return spec;
}

namespace {

/// Memory of the device that has been written by the host, so many bytes behind an aligned address.
class Buffer {
 public:
  Buffer(Device& device, std::vector<std::byte> bytes, std::int64_t shift = 0)
      : device_(device), bytes_(std::move(bytes)), memory_(device.allocate(shift + std::ssize(bytes_))), shift_(shift) {
    device.copy_in(get(), bytes_.data(), std::ssize(bytes_));
  }

  void* get() const { return static_cast<std::byte*>(memory_.get()) + shift_; }
  const std::vector<std::byte>& read() {
    device_.copy_out(bytes_.data(), get(), std::ssize(bytes_));
    return bytes_;
  }

 private:
  Device& device_;
  std::vector<std::byte> bytes_;
  std::shared_ptr<void> memory_;
  std::int64_t shift_;
};

constexpr std::byte kUnwritten{0x5A};

std::vector<std::byte> bytes_of(const Tensor& t) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(t.size() * size_of(t.dtype)));
  store(t, bytes.data());
  return bytes;
}

}  // namespace

struct ReadyKernel::Impl {
  // What a kernel does with its working memory must not depend on what is there, nor reach beyond its end.
  static constexpr std::int64_t kGuard = 256;

  Impl(Device& on, const KernelCase& of, bool in_place)
      : device(on),
        c(of),
        spec(spec_of(of)),
        scratch_size(scratch_bytes(on.kind(), spec)),
        scratch(on, std::vector<std::byte>(static_cast<std::size_t>(scratch_size + kGuard), kUnwritten)) {
    for (const auto& o : c.inputs) in.emplace_back(device, bytes_of(o.tensor), c.shift * size_of(o.tensor.dtype));
    for (std::size_t k = 0; k < c.expected.size(); ++k) {
      const auto& t = c.expected[k].tensor;
      const auto size = static_cast<std::size_t>(t.size() * size_of(t.dtype));
      out.emplace_back(device, k < c.before.size() ? bytes_of(c.before[k]) : std::vector<std::byte>(size, kUnwritten),
                       c.shift * size_of(t.dtype));
    }
    for (const auto& buffer : in) inputs.push_back(buffer.get());
    for (auto& buffer : out) results.push_back(&buffer);
    for (const auto& [output, input] : c.in_place)
      if (in_place) results[static_cast<std::size_t>(output)] = &in[static_cast<std::size_t>(input)];
    for (const auto* buffer : results) outputs.push_back(buffer->get());
    device.set_scratch(scratch.get(), scratch_size);
    kernel = device.make_kernel(spec);
    device.begin_step(c.params);
    device.synchronize();
  }

  Device& device;
  KernelCase c;
  KernelSpec spec;
  std::int64_t scratch_size;
  Buffer scratch;
  std::vector<Buffer> in, out;
  std::vector<Buffer*> results;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  std::unique_ptr<Kernel> kernel;
};

ReadyKernel::ReadyKernel(Device& device, const KernelCase& c, bool in_place)
    : impl_(std::make_unique<Impl>(device, c, in_place)) {}

ReadyKernel::~ReadyKernel() = default;

void ReadyKernel::run() {
  impl_->kernel->run(impl_->inputs.data(), impl_->outputs.data(), impl_->c.params);
  impl_->device.synchronize();
}

std::vector<Tensor> ReadyKernel::results() {
  const auto& c = impl_->c;
  const auto& after = impl_->scratch.read();
  EXPECT_TRUE(std::all_of(after.end() - Impl::kGuard, after.end(), [](std::byte b) { return b == kUnwritten; }))
      << c.name << " " << to_string(c.attributes) << " writes beyond " << impl_->scratch_size
      << " bytes of working memory";
  std::vector<Tensor> tensors;
  for (std::size_t k = 0; k < c.expected.size(); ++k) {
    auto& t = tensors.emplace_back(c.expected[k].tensor);
    const auto& bytes = impl_->results[k]->read();
    for (std::int64_t i = 0; i < t.size(); ++i) t[i] = load(t.dtype, bytes.data(), i);
  }
  return tensors;
}

std::vector<Tensor> run_kernel(Device& device, const KernelCase& c, bool in_place) {
  ReadyKernel kernel(device, c, in_place);
  kernel.run();
  return kernel.results();
}

Device& device_with(int threads) {
  static const bool kLimited = [] {
    const char* level = std::getenv("TESSERA_TEST_ISA");
    if (level != nullptr && isa_rank(level) < isa_rank(cpu_features().isa)) limit_cpu_isa(level);
    return level != nullptr;
  }();
  (void)kLimited;
  if (on_gpu()) {
    static const auto kGpu = tessera::test::make_device();
    return *kGpu;
  }
  static const auto kOne = make_cpu_device({.threads = 1});
  static const auto kTwo = make_cpu_device({.threads = 2});
  return threads == 1 ? *kOne : *kTwo;
}

std::unique_ptr<Device> new_device() { return tessera::test::make_device(); }

bool on_gpu() { return tessera::test::device_kind() == DeviceKind::kCuda; }

void expect_kernel(const KernelCase& c) {
  const auto serial = run_kernel(device_with(1), c);
  expect_near(c, serial, on_gpu() ? "on the GPU" : "with one thread");
  const auto parallel = run_kernel(device_with(2), c);
  if (c.thread_independent || on_gpu()) {
    expect_equal(c, serial, parallel, on_gpu() ? "a second time" : "with two threads");
  } else {
    expect_near(c, parallel, "with two threads");
  }
  if (!c.in_place.empty()) expect_equal(c, serial, run_kernel(device_with(1), c, true), "in place");
}

const std::vector<std::int64_t>& odd_sizes() {
  static const std::vector<std::int64_t> kSizes{1, 3, 8, 17, 64, 100};
  return kSizes;
}

Operand part_of(const Tensor& whole, const Shape& start, const Shape& size) {
  auto part = reference::zeros(size, whole.dtype);
  const auto strides = strides_of(whole.shape), own = strides_of(size);
  for (std::int64_t i = 0; i < part.size(); ++i) {
    std::int64_t from = 0;
    for (std::size_t d = 0; d < size.size(); ++d) from += (start[d] + i / own[d] % size[d]) * strides[d];
    part[i] = whole[from];
  }
  return {part, whole.shape, start};
}

}  // namespace tessera::device::test
