// After its first run a kernel asks for no memory. The new of this binary counts; what libraries do inside is theirs.
#include <gtest/gtest.h>

#include "device/harness.h"
#include "support/allocations.h"

namespace tessera::device::test {
namespace {

/// Allocations of the third run.
std::int64_t allocations_of(Device& device, const KernelSpec& spec) {
  std::vector<std::shared_ptr<void>> memory;
  const auto pointers = [&](const std::vector<TensorSpec>& tensors) {
    std::vector<void*> list;
    for (const auto& t : tensors) {
      memory.push_back(device.allocate(elements(t.shape) * size_of(t.dtype)));
      list.push_back(memory.back().get());
    }
    return list;
  };
  const auto in = pointers(spec.inputs), out = pointers(spec.outputs);
  const std::vector<const void*> inputs(in.begin(), in.end());
  const auto scratch_size = scratch_bytes(DeviceKind::kCpu, spec);
  memory.push_back(device.allocate(scratch_size));
  device.set_scratch(memory.back().get(), scratch_size);
  const auto kernel = device.make_kernel(spec);
  const StepParams params{.step = 3, .iteration = 2, .learning_rate = 0.1, .real_rows = 1000};
  for (int k = 0; k < 2; ++k) kernel->run(inputs.data(), out.data(), params);
  const auto before = tessera::test::allocations.load();
  kernel->run(inputs.data(), out.data(), params);
  return tessera::test::allocations - before;
}

TEST(Allocation, KernelsAskForNoMemoryAfterTheirFirstRun) {
  const TensorSpec x{{1000, 64}}, row{{64}}, rows{{1000}}, scalar{{}}, labels{{1000}, DType::kI32},
      f64{{}, DType::kF64};
  const Attributes logits{{"from_logits", true}};
  const std::vector<KernelSpec> specs{
      {"matmul", {x, {{64, 48}}, {{48}}}, {{{1000, 48}}}, {{"bias", true}, {"activation", std::string("gelu")}}},
      {"elementwise", {x, row}, {x}, {{"program", std::string("add i0 i1 | gelu t0 | affine t1 2 1")}}},
      {"reduce_sum", {x}, {row}, {{"dims", std::vector<std::int64_t>{0}}}},
      {"reduce_sum", {x}, {rows}, {{"dims", std::vector<std::int64_t>{1}}}},
      {"reduce_sum", {x}, {scalar}, {{"dims", std::vector<std::int64_t>{0, 1}}}},
      {"add_n", {x, x, x}, {x}, {}},
      {"softmax", {x}, {x}, {}},
      {"layer_norm", {x, row, row}, {x, rows, rows}, {{"scale", true}, {"center", true}, {"epsilon", 1e-3}}},
      {"layer_norm_backward", {x, x, rows, rows, row}, {x, row, row}, {{"scale", true}, {"needs", std::string("xgb")}}},
      {"embedding", {x, labels}, {x}, {}},
      {"embedding_backward", {labels, x}, {x}, {}},
      {"dropout", {x}, {x}, {{"rate", 0.5}, {"key", std::int64_t{1}}}},
      {"row_loss", {x, x}, {rows}, {{"loss", std::string("mse")}}},
      {"row_loss_backward", {x, x, rows}, {x}, {{"loss", std::string("mse")}}},
      {"categorical_crossentropy", {x, x}, {rows}, logits},
      {"sparse_crossentropy", {x, labels}, {rows, rows}, logits},
      {"sparse_crossentropy_backward", {x, labels, rows, rows}, {x}, logits},
      {"weighted_sum", {rows}, {scalar}, {{"denominator", std::string("rows")}}},
      {"weighted_sum_backward", {scalar}, {rows}, {{"denominator", std::string("rows")}}},
      {"sum_squares", {x}, {f64}, {}},
      {"adam_update", {x, x, x, x}, {x, x, x}, {{"beta_1", 0.9}, {"beta_2", 0.999}, {"epsilon", 1e-7}}},
      {"sgd_update", {x, x, x}, {x, x, f64}, {{"momentum", 0.9}, {"sum_squares", true}}},
      {"copy", {x}, {x}, {}},
      {"copy_box", {x}, {x}, {}},
      {"pack", {x}, {x}, {{"dim", std::int64_t{1}}, {"parts", std::int64_t{2}}}},
      {"concat", {x, x}, {{{1000, 128}}}, {{"dim", std::int64_t{1}}}}};
  for (const int threads : {1, 2}) {
    const auto device = make_cpu_device({.threads = threads});
    device->set_tuning("1000x48x64 nn openblas_1x" + std::to_string(threads) + "\n");  // oneDNN asks for memory inside
    for (const auto& spec : specs) EXPECT_EQ(allocations_of(*device, spec), 0) << spec.name << ", threads: " << threads;
  }
}

}  // namespace
}  // namespace tessera::device::test
