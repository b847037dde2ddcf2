// GFLOP/s of our matmul and of each library alone, for the shapes of the examples and of the models that we are
// compared with. All of them are run in turns and judged by their best run, so that a busy machine disturbs them alike.
//   matmul_bench [--threads=N] [Google Benchmark's flags]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <benchmark/benchmark.h>
#include <cblas.h>

#include "device/cpu.h"
#include "device/cpu/gemm.h"
#include "device/device.h"

namespace tessera::device {
namespace {

struct Named {
  const char* name;
  MatmulShape shape;
};

// x (m, k) w (k, n); dw = x^T dy; dx = dy w^T.
std::vector<Named> shapes() {
  std::vector<Named> list;
  const auto add = [&](const char* name, std::int64_t rows, std::int64_t in, std::int64_t out) {
    list.push_back({name, {rows, out, in, false, false}});
    list.push_back({name, {in, out, rows, true, false}});
    list.push_back({name, {rows, in, out, false, true}});
  };
  add("mlp/dense_1", 256, 1024, 4096);
  add("mlp/dense_1/half_batch", 128, 1024, 4096);
  add("mlp/dense_1/half_units", 256, 1024, 2048);
  add("mlp/dense_2", 256, 4096, 10);
  add("digits/dense_1", 64, 64, 40);
  add("gpt/qkv", 1024, 768, 2304);
  add("gpt/up", 1024, 768, 3072);
  add("gpt/down", 1024, 3072, 768);
  return list;
}

struct Runner {
  const char* name;
  std::function<void()> run;
  double best = 1e30;  // seconds
};

std::shared_ptr<float> some_numbers(Device& device, std::int64_t n) {
  const auto memory = device.allocate(n * static_cast<std::int64_t>(sizeof(float)));
  auto* values = static_cast<float*>(memory.get());
  for (std::int64_t i = 0; i < n; ++i) values[i] = static_cast<float>(i * 37 % 101) * 0.01F - 0.5F;
  return {memory, values};
}

void compare(benchmark::State& state, const MatmulShape& s, Device& device, cpu::Context& context) {
  const auto a_memory = some_numbers(device, s.m * s.k), b_memory = some_numbers(device, s.k * s.n),
             y_memory = some_numbers(device, s.m * s.n);
  const auto *a = a_memory.get(), *b = b_memory.get();
  auto* y = y_memory.get();
  const KernelSpec spec{
      "matmul",
      {{s.transpose_a ? Shape{s.k, s.m} : Shape{s.m, s.k}}, {s.transpose_b ? Shape{s.n, s.k} : Shape{s.k, s.n}}},
      {{{s.m, s.n}}},
      {{"transpose_a", s.transpose_a}, {"transpose_b", s.transpose_b}}};
  device.tune({spec});
  const auto scratch_size =
      std::max(scratch_bytes(DeviceKind::kCpu, spec), cpu::onednn_scratch_bytes(s, context.threads));
  const auto scratch = device.allocate(scratch_size);
  device.set_scratch(scratch.get(), scratch_size);
  context.scratch = {scratch.get(), scratch_size};
  const auto kernel = device.make_kernel(spec);
  const void* inputs[]{a, b};
  void* outputs[]{y};
  const auto primitive = cpu::make_gemm("onednn", {.shape = s}, context);
  const auto sgemm = cpu::make_gemm("onednn_sgemm", {.shape = s}, context);
  const cpu::GemmOperands operands{a, b, nullptr, y, 0};
  const auto int_of = [](std::int64_t n) { return static_cast<blasint>(n); };
  std::vector<Runner> runners{{"ours", [&] { kernel->run(inputs, outputs, {}); }},
                              {"onednn", [&] { primitive->run(operands, nullptr); }},
                              {"onednn_sgemm", [&] { sgemm->run(operands, nullptr); }},
                              {"openblas", [&] {
                                 cblas_sgemm(CblasRowMajor, s.transpose_a ? CblasTrans : CblasNoTrans,
                                             s.transpose_b ? CblasTrans : CblasNoTrans, int_of(s.m), int_of(s.n),
                                             int_of(s.k), 1, a, int_of(s.transpose_a ? s.m : s.k), b,
                                             int_of(s.transpose_b ? s.k : s.n), 0, y, int_of(s.n));
                               }}};
  const double flops = 2.0 * static_cast<double>(s.m * s.n * s.k);
  const int repeats = std::max(1, static_cast<int>(2e6 / flops));  // small ones are timed together
  kernel->run(inputs, outputs, {});
  for (auto _ : state) {
    for (auto& r : runners) {
      const bool own_threads = std::string(r.name) == "openblas";
      if (own_threads) openblas_set_num_threads(context.threads);
      const auto start = std::chrono::steady_clock::now();
      for (int k = 0; k < repeats; ++k) r.run();
      const auto seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / repeats;
      if (own_threads) {
        openblas_set_num_threads(1);
        std::this_thread::sleep_for(std::chrono::milliseconds(50));  // its threads spin on for a while
        kernel->run(inputs, outputs, {});                            // and OpenMP's, asleep by now, wake again
      }
      r.best = std::min(r.best, seconds);
    }
    state.SetIterationTime(runners[0].best);
  }
  double ours = 0, best_library = 1e30;
  for (const auto& r : runners) {
    state.counters[r.name] = flops / r.best * 1e-9;
    if (std::string(r.name) == "ours")
      ours = r.best;
    else
      best_library = std::min(best_library, r.best);
  }
  state.counters["ratio"] = best_library / ours;
}

}  // namespace
}  // namespace tessera::device

int main(int argc, char** argv) {
  using namespace tessera::device;
  int threads = static_cast<int>(cpu_features().cores.size());
  for (int k = 1; k < argc; ++k)
    if (std::sscanf(argv[k], "--threads=%d", &threads) == 1) std::rotate(argv + k, argv + k + 1, argv + argc--);
  benchmark::Initialize(&argc, argv);
  const auto device = make_cpu_device({.threads = threads});
  cpu::Context context;
  context.threads = threads;
  for (const auto& [name, shape] : shapes())
    benchmark::RegisterBenchmark((std::string(name) + " " + to_string(shape)).c_str(),
                                 [&, s = shape](benchmark::State& state) { compare(state, s, *device, context); })
        ->UseManualTime()
        ->Iterations(10)
        ->Unit(benchmark::kMillisecond);
  benchmark::RunSpecifiedBenchmarks();
}
