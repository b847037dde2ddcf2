#include <atomic>

#include <cblas.h>

#include "device/cpu.h"
#include "device/cpu/gemm.h"
#include "device/cpu/parallel.h"

namespace tessera::device {
namespace {
std::atomic<bool> excluded{false};
}  // namespace

void exclude_openblas() { excluded = true; }

namespace cpu {

bool openblas_excluded() { return excluded; }

void use_single_threaded_openblas() { openblas_set_num_threads(1); }

namespace {

constexpr std::int64_t kTile = 16;  // parts begin at multiples of it, so that no kernel's tile is cut

class OpenBlasGemm final : public Gemm {
 public:
  OpenBlasGemm(const GemmSpec& spec, int row_parts, int column_parts, int threads)
      : spec_(spec), row_parts_(row_parts), column_parts_(column_parts), threads_(threads) {}

  void run(const GemmOperands& o, Epilogue* epilogue) override {
    if (row_parts_ * column_parts_ == 1) return run_part(o, epilogue, 0, 0);
    parallel_pieces(threads_, row_parts_ * column_parts_,
                    [&](std::int64_t part, int thread) { run_part(o, epilogue, part, thread); });
  }

 private:
  static std::int64_t cut(std::int64_t size, std::int64_t part, std::int64_t parts) {
    return part == parts ? size : size * part / parts / kTile * kTile;
  }

  void run_part(const GemmOperands& o, Epilogue* epilogue, std::int64_t part, int thread) const {
    const auto& [m, n, k, transpose_a, transpose_b] = spec_.shape;
    const auto r = part / column_parts_, c = part % column_parts_;
    const auto row = cut(m, r, row_parts_), row_end = cut(m, r + 1, row_parts_);
    const auto col = cut(n, c, column_parts_), col_end = cut(n, c + 1, column_parts_);
    if (row == row_end || col == col_end) return;
    cblas_sgemm(CblasRowMajor, transpose_a ? CblasTrans : CblasNoTrans, transpose_b ? CblasTrans : CblasNoTrans,
                static_cast<blasint>(row_end - row), static_cast<blasint>(col_end - col), static_cast<blasint>(k), 1.0F,
                o.a + (transpose_a ? row : row * k), static_cast<blasint>(transpose_a ? m : k),
                o.b + (transpose_b ? col * k : col), static_cast<blasint>(transpose_b ? k : n), o.beta,
                o.y + row * n + col, static_cast<blasint>(n));
    if (epilogue != nullptr) epilogue->run(row, row_end, col, col_end, thread);
  }

  GemmSpec spec_;
  std::int64_t row_parts_, column_parts_;
  int threads_;
};

}  // namespace

std::unique_ptr<Gemm> make_openblas_gemm(const GemmSpec& spec, int row_parts, int column_parts, Context& context) {
  return std::make_unique<OpenBlasGemm>(spec, row_parts, column_parts, context.threads);
}

}  // namespace cpu
}  // namespace tessera::device
