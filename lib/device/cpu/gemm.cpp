#include "device/cpu/gemm.h"

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>

#include "core/error.h"

namespace tessera::device::cpu {
namespace {

constexpr auto kTiled = "tiled";               // our own
constexpr auto kOneDnn = "onednn";             // its matmul primitive
constexpr auto kOneDnnSgemm = "onednn_sgemm";  // its BLAS-like function

std::string openblas_name(int row_parts, int column_parts) {
  return fmt::format("openblas_{}x{}", row_parts, column_parts);
}

}  // namespace

std::int64_t gemm_scratch_bytes(const MatmulShape& s) {
  constexpr std::int64_t kMost = std::int64_t{16} << 20;
  const auto copies = (s.m * s.k + s.k * s.n + s.m * s.n) * static_cast<std::int64_t>(sizeof(float));
  return std::max(tiled_scratch_bytes(s), std::min(kMost, copies));
}

std::vector<std::string> gemm_candidates(const MatmulShape& shape, int threads) {
  const auto products = shape.m * shape.n * shape.k;
  constexpr std::int64_t kTiny = 1 << 16, kSmall = 1 << 22;  // where one thread is surely, perhaps the fastest
  std::vector<std::string> names;
  if (products >= kSmall) names.emplace_back(kTiled);
  if (!openblas_excluded()) {
    const bool wide = shape.n >= shape.m;
    const auto split = [&](int parts) { return wide ? openblas_name(1, parts) : openblas_name(parts, 1); };
    constexpr int kPieces = 8;  // a thread: one that the system interrupts holds up a piece only
    if (threads > 1 && products < kTiny) names.push_back(openblas_name(1, 1));
    if (threads > 1 && std::max(shape.m, shape.n) >= 128 * kPieces) names.push_back(split(kPieces * threads));
    names.push_back(split(threads));
    for (int rows = 1; rows <= threads && names.size() < 6; ++rows)
      if (const auto name = openblas_name(rows, threads / rows); threads % rows == 0 && name != split(threads))
        names.push_back(name);
    if (threads > 1 && products >= kTiny && products < kSmall) names.push_back(openblas_name(1, 1));
  }
  names.emplace_back(kOneDnnSgemm);
  const bool empty = shape.m * shape.n * shape.k == 0;
  if (!empty && onednn_scratch_bytes(shape, threads) <= gemm_scratch_bytes(shape)) names.emplace_back(kOneDnn);
  return names;
}

bool gemm_fuses(const std::string& name) { return name == kOneDnn; }

std::unique_ptr<Gemm> make_gemm(const std::string& name, const GemmSpec& spec, Context& context) {
  if (name == kTiled) return make_tiled_gemm(spec, context);
  if (name == kOneDnn) return make_onednn_gemm(spec, context);
  if (name == kOneDnnSgemm) return make_onednn_sgemm(spec, context);
  int rows = 0, columns = 0;
  if (std::sscanf(name.c_str(), "openblas_%dx%d", &rows, &columns) == 2 && rows > 0 && columns > 0)
    return make_openblas_gemm(spec, rows, columns, context);
  fail(ExitCode::kInternal, "internal error: '{}' is no implementation of matmul", name);
}

}  // namespace tessera::device::cpu
