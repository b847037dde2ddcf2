// What kernels move on a GPU, counted by the emulator: they read and write each tensor once, and little else.
#include <cuda_emulator/control.h>

#include <gtest/gtest.h>

#include "device/cuda.h"
#include "device/harness.h"
#include "reference/ops.h"

namespace tessera::device::test {
namespace {

using reference::random;
using reference::random_integers;
using reference::zeros;

std::uint64_t bytes_of(const std::vector<Operand>& operands) {
  std::uint64_t sum = 0;
  for (const auto& o : operands) sum += static_cast<std::uint64_t>(o.tensor.size() * size_of(o.tensor.dtype));
  return sum;
}

/// Beside its operands a kernel may move a twenty-fifth, and some numbers for each launch. What all threads of a row
/// read, such as its cotangent, counts for each of them: such kernels aren't asked.
void expect_one_pass(const KernelCase& c) {
  const auto gpu = cuda_backend().make_device({});
  cuda_emulator::reset_traffic();
  run_kernel(*gpu, c);
  const auto moved = cuda_emulator::traffic();
  const auto must = bytes_of(c.inputs) + bytes_of(c.expected);
  EXPECT_LE(moved.requested.sum(), must + must / 25 + 1024) << c.name << ", where the operands have " << must;
  EXPECT_LE(moved.launches, 2U) << c.name;
}

TEST(Traffic, RowsAreReadOnce) {
  for (const std::int64_t cols : {32, 100, 1024, 4096, 8192}) {
    const std::int64_t rows = cols < 1000 ? 400 : 20;
    const auto x = random({rows, cols}, 1), row = random({rows}, 2);
    const auto labels = random_integers({rows}, 3, 0, cols);
    const Attributes logits{{"from_logits", true}}, mse{{"loss", std::string("mse")}};
    for (const auto& c : std::vector<KernelCase>{
             {.name = "softmax", .inputs = {x}, .expected = {x}},
             {.name = "softmax_backward", .inputs = {x, x}, .expected = {x}},
             {.name = "row_max", .inputs = {x}, .expected = {row}},
             {.name = "row_loss", .inputs = {x, x}, .expected = {row}, .attributes = mse},
             {.name = "categorical_crossentropy", .inputs = {x, x}, .expected = {row}, .attributes = logits},
             {.name = "sparse_crossentropy", .inputs = {x, labels}, .expected = {row, row}, .attributes = logits}})
      expect_one_pass(c);
  }
}

TEST(Traffic, SumsReadTheirTermsOnce) {
  const auto x = random({1000, 128}, 1);
  const auto dims = [](std::vector<std::int64_t> d) { return Attributes{{"dims", std::move(d)}}; };
  for (const auto& c : std::vector<KernelCase>{
           {.name = "reduce_sum", .inputs = {x}, .expected = {zeros({1000})}, .attributes = dims({1})},
           {.name = "reduce_sum", .inputs = {x}, .expected = {zeros({})}, .attributes = dims({0, 1})},
           {.name = "sum_squares", .inputs = {x}, .expected = {zeros({}, DType::kF64)}},
           {.name = "add_n", .inputs = {x, x, x}, .expected = {x}}})
    expect_one_pass(c);
}

}  // namespace
}  // namespace tessera::device::test
