#include <algorithm>
#include <array>
#include <omp.h>
#include <optional>

#include <dnnl.hpp>

#include "core/error.h"
#include "device/cpu/gemm.h"
#include "device/cpu/parallel.h"

namespace tessera::device::cpu {
namespace {

/// Throws Error (internal) that names the call, unless oneDNN reports success.
void check(dnnl_status_t status, const char* call) {
  if (status != dnnl_success)
    fail(ExitCode::kInternal, "internal error: oneDNN's {} returns status {}", call, static_cast<int>(status));
}

/// The epilogue over the whole result, after a library that used all threads itself.
void run_epilogue(Epilogue* epilogue, const MatmulShape& shape, int threads) {
  if (epilogue == nullptr) return;
  parallel_parts(threads, shape.m, row_grain(shape.n), [&](std::int64_t part, std::int64_t row, std::int64_t row_end) {
    epilogue->run(row, row_end, 0, shape.n, static_cast<int>(part));
  });
}

dnnl::memory::desc matrix(std::int64_t rows, std::int64_t cols, bool transposed) {
  return {{rows, cols}, dnnl::memory::data_type::f32, {transposed ? 1 : cols, transposed ? rows : 1}};
}

/// y = a b + bias, or y += a b.
dnnl::matmul::primitive_desc describe(const GemmSpec& spec, bool add, const dnnl::engine& engine) {
  const auto& [m, n, k, transpose_a, transpose_b] = spec.shape;
  const auto a = matrix(m, k, transpose_a), b = matrix(k, n, transpose_b), y = matrix(m, n, false);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  dnnl::post_ops after;
  if (add) after.append_sum(1);
  if (spec.fuse_relu) after.append_eltwise(1, dnnl::algorithm::eltwise_relu, 0, 0);
  attributes.set_post_ops(after);
  const auto desc = spec.fuse_bias ? dnnl::matmul::desc(a, b, matrix(1, n, false), y) : dnnl::matmul::desc(a, b, y);
  return {desc, attributes, engine};
}

std::int64_t scratch_of(const dnnl::matmul::primitive_desc& primitive) {
  return static_cast<std::int64_t>(primitive.scratchpad_desc().get_size());
}

/// A matmul primitive, with its arguments bound to fixed memory objects.
class OneDnnGemm final : public Gemm {
 public:
  OneDnnGemm(const GemmSpec& spec, const Context& context) : spec_(spec), threads_(context.threads) {
    omp_set_num_threads(threads_);
    const auto& [m, n, k, transpose_a, transpose_b] = spec.shape;
    const auto bind = [&](const dnnl::memory::desc& desc, void* data = DNNL_MEMORY_NONE) {
      return dnnl::memory(desc, engine_, data);
    };
    memories_ = {bind(matrix(m, k, transpose_a)), bind(matrix(k, n, transpose_b)), bind(matrix(m, n, false)),
                 bind(matrix(1, n, false))};
    for (const bool add : {false, true}) {
      if (add && !spec.accumulate) continue;
      const auto primitive = describe(spec, add, engine_);
      auto* scratch = context.scratch.take<void>(scratch_of(primitive));
      scratchpads_[add ? 1 : 0] = bind(primitive.scratchpad_desc(), scratch);
      primitives_[add ? 1 : 0].emplace(primitive);
    }
  }

  void run(const GemmOperands& o, Epilogue* epilogue) override {
    omp_set_num_threads(threads_);
    const std::size_t adds = o.beta == 0 ? 0 : 1;
    memories_[0].set_data_handle(const_cast<float*>(o.a));
    memories_[1].set_data_handle(const_cast<float*>(o.b));
    memories_[2].set_data_handle(o.y);
    std::array<dnnl_exec_arg_t, 5> args{{{DNNL_ARG_SRC, memories_[0].get()},
                                         {DNNL_ARG_WEIGHTS, memories_[1].get()},
                                         {DNNL_ARG_DST, memories_[2].get()},
                                         {DNNL_ARG_SCRATCHPAD, scratchpads_[adds].get()},
                                         {DNNL_ARG_BIAS, memories_[3].get()}}};
    if (spec_.fuse_bias) memories_[3].set_data_handle(const_cast<float*>(o.bias));
    check(dnnl_primitive_execute(primitives_[adds]->get(), stream_.get(), spec_.fuse_bias ? 5 : 4, args.data()),
          "dnnl_primitive_execute");
    run_epilogue(epilogue, spec_.shape, threads_);
  }

 private:
  GemmSpec spec_;
  int threads_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::array<dnnl::memory, 4> memories_;                   // a, b, y, bias
  std::array<std::optional<dnnl::matmul>, 2> primitives_;  // y = .., y += ..
  std::array<dnnl::memory, 2> scratchpads_;
};

class OneDnnSgemm final : public Gemm {
 public:
  OneDnnSgemm(const GemmSpec& spec, int threads) : spec_(spec), threads_(threads) {}

  void run(const GemmOperands& o, Epilogue* epilogue) override {
    omp_set_num_threads(threads_);
    const auto& [m, n, k, transpose_a, transpose_b] = spec_.shape;
    check(dnnl_sgemm(transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', m, n, k, 1.0F, o.a, transpose_a ? m : k, o.b,
                     transpose_b ? k : n, o.beta, o.y, n),
          "dnnl_sgemm");
    run_epilogue(epilogue, spec_.shape, threads_);
  }

 private:
  GemmSpec spec_;
  int threads_;
};

}  // namespace

std::int64_t onednn_scratch_bytes(const MatmulShape& shape, int threads) {
  const dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  omp_set_num_threads(threads);
  try {
    std::int64_t most = 0;
    for (const GemmSpec& spec :
         {GemmSpec{shape}, GemmSpec{shape, true}, GemmSpec{shape, false, true}, GemmSpec{shape, false, true, true}})
      most = std::max(most, scratch_of(describe(spec, spec.accumulate, engine)));
    return most;
  } catch (const dnnl::error& e) {
    fail(ExitCode::kInternal, "internal error: oneDNN knows no matmul {}: {}", to_string(shape), e.what());
  }
}

std::unique_ptr<Gemm> make_onednn_gemm(const GemmSpec& spec, Context& context) {
  try {
    return std::make_unique<OneDnnGemm>(spec, context);
  } catch (const dnnl::error& e) {
    fail(ExitCode::kInternal, "internal error: oneDNN makes no matmul {}: {}", to_string(spec.shape), e.what());
  }
}

std::unique_ptr<Gemm> make_onednn_sgemm(const GemmSpec& spec, Context& context) {
  return std::make_unique<OneDnnSgemm>(spec, context.threads);
}

}  // namespace tessera::device::cpu
