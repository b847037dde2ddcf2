#include <algorithm>
#include <chrono>

#include "device/cpu/gemm.h"
#include "device/cpu/matmul.h"
#include "device/cpu/parallel.h"

namespace tessera::device::cpu {
namespace {

/// A matrix with numbers like those of a model: around 0, none of them denormal.
std::shared_ptr<float> some_matrix(std::int64_t size, int threads) {
  const auto memory = allocate_aligned(size * static_cast<std::int64_t>(sizeof(float)));
  auto* data = static_cast<float*>(memory.get());
  parallel_for(threads, size, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = begin; i < end; ++i) data[i] = static_cast<float>((i * 37) % 101 - 50) * 0.01F;
  });
  return {memory, data};
}

}  // namespace

std::vector<double> time_gemms(const std::vector<std::string>& names, const MatmulShape& shape,
                               const Context& context) {
  const auto& [m, n, k, transpose_a, transpose_b] = shape;
  const auto a = some_matrix(m * k, context.threads), b = some_matrix(k * n, context.threads),
             y = some_matrix(m * n, context.threads);
  const auto scratch_bytes = std::max(gemm_scratch_bytes(shape), onednn_scratch_bytes(shape, context.threads));
  const auto scratch = allocate_aligned(scratch_bytes);
  Context timing;
  timing.threads = context.threads;
  timing.scratch = {scratch.get(), scratch_bytes};
  std::vector<std::unique_ptr<Gemm>> gemms;
  for (const auto& name : names) gemms.push_back(make_gemm(name, {.shape = shape}, timing));

  constexpr int kLeastTurns = 3, kMostTurns = 30;  // the first turn also warms up
  constexpr double kLong = 0.1, kBudget = 8e-3;
  std::vector<double> best(gemms.size(), 1e30);
  double spent = 0, longest = 0;
  for (int turn = 0; turn < kMostTurns; ++turn) {
    if (turn >= (longest > kLong ? kLeastTurns - 1 : kLeastTurns) && spent > kBudget) break;
    for (std::size_t g = 0; g < gemms.size(); ++g) {
      const auto start = std::chrono::steady_clock::now();
      gemms[g]->run({a.get(), b.get(), nullptr, y.get(), 0}, nullptr);
      const auto seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      best[g] = std::min(best[g], seconds);
      longest = std::max(longest, seconds);
      spent += seconds;
    }
  }
  return best;
}

}  // namespace tessera::device::cpu
