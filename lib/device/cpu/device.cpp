#include <chrono>
#include <cstring>

#include <fmt/format.h>

#include "device/cpu.h"
#include "device/cpu/context.h"
#include "device/cpu/gemm.h"
#include "device/cpu/kernels.h"
#include "device/cpu/matmul.h"

namespace tessera::device {
namespace cpu {
namespace {

std::string machine_line(int threads) {
  const auto f = cpu_features();
  return fmt::format("tessera matmul choices 3; {}; {}; threads {}; oneDNN {}; OpenBLAS {} {}", f.model, f.isa, threads,
                     f.onednn, f.openblas, f.openblas_core);
}

/// Work has ended when it is given: an event is a time.
class CpuEvent final : public Event {
 public:
  void record(Stream) override { time_ = std::chrono::steady_clock::now(); }
  void wait(Stream) override {}
  bool done() override { return true; }
  double seconds_since(const Event& start) const override {
    return std::chrono::duration<double>(time_ - dynamic_cast<const CpuEvent&>(start).time_).count();
  }

 private:
  std::chrono::steady_clock::time_point time_;
};

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(const CpuOptions& options) : options_(options) {
    if (options.threads < 1) fail(ExitCode::kConfig, "a CPU device needs at least one thread, not {}", options.threads);
    context_.threads = options.threads;
    context_.tuning = Tuning(machine_line(options.threads));
    if (!options.matmul_cache.empty()) context_.tuning.load(options.matmul_cache);
    use_single_threaded_openblas();
  }

  std::string name() const override { return fmt::format("cpu:{}", options_.local_rank); }

  DeviceKind kind() const override { return DeviceKind::kCpu; }

  std::unique_ptr<Kernel> make_kernel(const KernelSpec& spec, Stream) override {
    return find_factory(spec)(spec, context_);
  }

  std::shared_ptr<void> allocate(std::int64_t bytes) override { return allocate_aligned(bytes); }
  std::shared_ptr<void> allocate_host(std::int64_t bytes) override { return allocate_aligned(bytes); }

  void copy_in(void* device, const void* host, std::int64_t bytes) override { copy(device, host, bytes); }
  void copy_out(void* host, const void* device, std::int64_t bytes) override { copy(host, device, bytes); }
  void upload(void* device, const void* host, std::int64_t bytes) override { copy(device, host, bytes); }

  void begin_step(const StepParams&) override {}
  bool idle() override { return true; }
  void synchronize() override {}

  std::unique_ptr<Event> make_event() override { return std::make_unique<CpuEvent>(); }
  void* native_stream(Stream) override { return nullptr; }

  std::string tune(const std::vector<KernelSpec>& kernels) override {
    bool timed = false;
    for (const auto& spec : kernels)
      if (spec.name == "matmul") timed |= choose_matmul(spec, context_);
    if (timed && !options_.matmul_cache.empty()) context_.tuning.save(options_.matmul_cache);
    return context_.tuning.text();
  }
  void set_tuning(const std::string& text) override { context_.tuning.parse(text); }

  void set_scratch(void* memory, std::int64_t bytes) override { context_.scratch = Scratch(memory, bytes); }

 private:
  static void copy(void* to, const void* from, std::int64_t bytes) {
    if (bytes > 0) std::memcpy(to, from, static_cast<std::size_t>(bytes));
  }

  CpuOptions options_;
  Context context_;
};

}  // namespace
}  // namespace cpu

std::unique_ptr<Device> make_cpu_device(const CpuOptions& options) { return std::make_unique<cpu::CpuDevice>(options); }

}  // namespace tessera::device
