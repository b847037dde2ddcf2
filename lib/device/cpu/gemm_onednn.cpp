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

/// A matmul primitive, with its arguments bound to fixed memory objects.
class OneDnnGemm final : public Gemm {
 public:
  OneDnnGemm(const GemmSpec& spec, Context& context) : spec_(spec), context_(context) {
    omp_set_num_threads(context.threads);
    const auto& [m, n, k, transpose_a, transpose_b] = spec.shape;
    const auto f32 = dnnl::memory::data_type::f32;
    const dnnl::memory::desc a({m, k}, f32, transpose_a ? dnnl::memory::dims{1, m} : dnnl::memory::dims{k, 1});
    const dnnl::memory::desc b({k, n}, f32, transpose_b ? dnnl::memory::dims{1, k} : dnnl::memory::dims{n, 1});
    const dnnl::memory::desc y({m, n}, f32, dnnl::memory::dims{n, 1});
    const dnnl::memory::desc bias({1, n}, f32, dnnl::memory::dims{n, 1});
    const auto bind = [&](const dnnl::memory::desc& desc) { return dnnl::memory(desc, engine_, DNNL_MEMORY_NONE); };
    memories_ = {bind(a), bind(b), bind(y), bind(bias)};
    primitives_[0].emplace(make(a, b, bias, y, false));
    if (spec.accumulate) primitives_[1].emplace(make(a, b, bias, y, true));
    scratchpad_ = bind(scratchpad_desc_);
    context.scratch.reserve(static_cast<std::int64_t>(scratchpad_desc_.get_size()));
  }

  void run(const GemmOperands& o, Epilogue* epilogue) override {
    omp_set_num_threads(context_.threads);
    memories_[0].set_data_handle(const_cast<float*>(o.a));
    memories_[1].set_data_handle(const_cast<float*>(o.b));
    memories_[2].set_data_handle(o.y);
    std::array<dnnl_exec_arg_t, 5> args{{{DNNL_ARG_SRC, memories_[0].get()},
                                         {DNNL_ARG_WEIGHTS, memories_[1].get()},
                                         {DNNL_ARG_DST, memories_[2].get()},
                                         {DNNL_ARG_SCRATCHPAD, scratchpad_.get()},
                                         {DNNL_ARG_BIAS, memories_[3].get()}}};
    scratchpad_.set_data_handle(context_.scratch.as<void>());
    if (spec_.fuse_bias) memories_[3].set_data_handle(const_cast<float*>(o.bias));
    const auto& primitive = *primitives_[o.beta == 0 ? 0 : 1];
    check(dnnl_primitive_execute(primitive.get(), stream_.get(), spec_.fuse_bias ? 5 : 4, args.data()),
          "dnnl_primitive_execute");
    run_epilogue(epilogue, spec_.shape, context_.threads);
  }

 private:
  dnnl::matmul make(const dnnl::memory::desc& a, const dnnl::memory::desc& b, const dnnl::memory::desc& bias,
                    const dnnl::memory::desc& y, bool add) {
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    dnnl::post_ops after;
    if (add) after.append_sum(1);
    if (spec_.fuse_relu) after.append_eltwise(1, dnnl::algorithm::eltwise_relu, 0, 0);
    attributes.set_post_ops(after);
    const auto desc = spec_.fuse_bias ? dnnl::matmul::desc(a, b, bias, y) : dnnl::matmul::desc(a, b, y);
    const dnnl::matmul::primitive_desc primitive(desc, attributes, engine_);
    if (primitive.scratchpad_desc().get_size() >= scratchpad_desc_.get_size())
      scratchpad_desc_ = primitive.scratchpad_desc();
    return dnnl::matmul(primitive);
  }

  GemmSpec spec_;
  Context& context_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::array<dnnl::memory, 4> memories_;  // a, b, y, bias
  dnnl::memory::desc scratchpad_desc_;
  dnnl::memory scratchpad_;
  std::array<std::optional<dnnl::matmul>, 2> primitives_;  // y = .., y += ..
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
