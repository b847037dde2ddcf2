#include <algorithm>

#include "device/cpu/context.h"
#include "device/cpu/kernels.h"
#include "device/cpu/parallel.h"

namespace tessera::device::cpu {
namespace {

std::int64_t arg_max(const float* x, std::int64_t n) { return std::max_element(x, x + n) - x; }  // the first one

enum class Match : std::uint8_t { kBinary, kSparse, kCategorical };

}  // namespace

std::unique_ptr<Kernel> make_match_rows(const KernelSpec& spec, Context& context) {
  require_counts(spec, 2, 1);
  const auto [rows, cols] = rows_of(input(spec, 0));
  require(spec, elements(output(spec, 0)) == rows, "values have one number a row");
  const auto& name = spec.attributes.get<std::string>("kind");
  require(spec, name == "binary" || name == "sparse" || name == "categorical", "there is no such kind");
  const auto kind = name == "binary" ? Match::kBinary : name == "sparse" ? Match::kSparse : Match::kCategorical;
  const bool integers = spec.inputs[1].dtype == DType::kI32;
  require(spec, integers || spec.inputs[1].dtype == DType::kF32, "targets are f32 or i32");
  require(spec, elements(spec.inputs[1].shape) == (kind == Match::kSparse ? rows : rows * cols),
          "the targets do not fit");
  require(spec, kind != Match::kCategorical || !integers, "categorical targets are f32");
  require(spec, cols > 0 || rows == 0, "a row without columns has no prediction");
  const auto threshold = static_cast<float>(number_or(spec.attributes, "threshold", 0.5));
  return kernel_of([=, rows = rows, cols = cols, threads = context.threads](const Args& args) {
    const auto target = [&](std::int64_t i) {
      return integers ? static_cast<double>(args.in<std::int32_t>(1)[i]) : static_cast<double>(args.in(1)[i]);
    };
    each_row(threads, rows, cols, [&](std::int64_t r) {
      const auto* p = args.in(0) + r * cols;
      double value = 0;
      if (kind == Match::kSparse) {
        value = static_cast<double>(arg_max(p, cols)) == target(r) ? 1 : 0;
      } else if (kind == Match::kCategorical) {
        value = arg_max(p, cols) == arg_max(args.in(1) + r * cols, cols) ? 1 : 0;
      } else {
        for (std::int64_t c = 0; c < cols; ++c) value += (p[c] > threshold ? 1.0 : 0.0) == target(r * cols + c) ? 1 : 0;
        value /= static_cast<double>(cols);
      }
      args.out(0)[r] = static_cast<float>(value);
    });
  });
}

std::unique_ptr<Kernel> make_metric_accumulate(const KernelSpec& spec, Context& /*context*/) {
  const bool weights = spec.inputs.size() == 2;
  require_counts(spec, weights ? 2 : 1, 1);
  const auto& shape = input(spec, 0);
  if (weights) require_input(spec, 1, shape);
  require_output(spec, 0, {2}, DType::kF64);
  const RowMask mask(spec, spec.inputs[0]);
  const auto row = mask.rows == 0 ? 0 : elements(shape) / mask.rows;
  return kernel_of([weights, mask, row](const Args& args) {
    auto* state = args.out<double>(0);
    const auto real = mask.real(args.params) * row;
    for (std::int64_t i = 0; i < real; ++i) {
      const double w = weights ? static_cast<double>(args.in(1)[i]) : 1.0;
      state[0] += w * static_cast<double>(args.in(0)[i]);
      state[1] += w;
    }
  });
}

}  // namespace tessera::device::cpu
