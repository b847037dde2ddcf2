#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/cpu/context.h"
#include "device/matmul_spec.h"

namespace tessera::device::cpu {

/// What follows a matmul on its result; called for parts of it while they are warm, from several threads.
class Epilogue {
 public:
  virtual ~Epilogue() = default;
  /// Rows [row, row_end) x columns [col, col_end) of y are summed up. part: number of the calling thread.
  virtual void run(std::int64_t row, std::int64_t row_end, std::int64_t col, std::int64_t col_end, int part) = 0;
};

struct GemmOperands {
  const float* a;
  const float* b;
  const float* bias;  // (n), where the implementation was made with one
  float* y;           // (m, n)
  float beta;         // 0 or 1: y = a b + beta y
};

/// One implementation of y = a b + beta y for one shape. Matrices are row-major without gaps.
class Gemm {
 public:
  virtual ~Gemm() = default;
  /// epilogue may be null.
  virtual void run(const GemmOperands& operands, Epilogue* epilogue) = 0;
};

struct GemmSpec {
  MatmulShape shape;
  bool accumulate = false;                    // beta may be 1
  bool fuse_bias = false, fuse_relu = false;  // only where gemm_fuses() says so
};

/// Working memory that any implementation has for a shape: enough for a packed copy of the operands, up to 16 MiB.
std::int64_t gemm_scratch_bytes(const MatmulShape& shape);

/// Names of the implementations worth timing for a shape, what is to be preferred of equals first; the first is taken
/// untimed.
std::vector<std::string> gemm_candidates(const MatmulShape& shape, int threads);

/// Whether the implementation adds a bias and applies relu itself.
bool gemm_fuses(const std::string& name);

/// Throws Error (internal) for an unknown name.
std::unique_ptr<Gemm> make_gemm(const std::string& name, const GemmSpec& spec, Context& context);

std::unique_ptr<Gemm> make_tiled_gemm(const GemmSpec& spec, Context& context);
/// Working memory of that for a shape: at most 6 MiB.
std::int64_t tiled_scratch_bytes(const MatmulShape& shape);
std::unique_ptr<Gemm> make_onednn_gemm(const GemmSpec& spec, Context& context);
/// Working memory of that for a shape, whatever is fused.
std::int64_t onednn_scratch_bytes(const MatmulShape& shape, int threads);
std::unique_ptr<Gemm> make_onednn_sgemm(const GemmSpec& spec, Context& context);
/// The result is cut into row_parts x column_parts, which the threads take one after another.
std::unique_ptr<Gemm> make_openblas_gemm(const GemmSpec& spec, int row_parts, int column_parts, Context& context);

/// OpenBLAS's own threads would stand beside OpenMP's on the same cores: it computes on the caller's thread alone.
void use_single_threaded_openblas();
bool openblas_excluded();

}  // namespace tessera::device::cpu
