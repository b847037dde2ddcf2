#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "device/device.h"
#include "reference/tensor.h"

namespace tessera::device::test {

using reference::Tensor;

/// A tensor as a kernel gets it: with its place, where it is a part.
struct Operand {
  Tensor tensor;
  Shape global = {}, start = {};

  Operand(Tensor t) : tensor(std::move(t)) {}  // NOLINT: a tensor alone is whole
  Operand(Tensor t, Shape g, Shape s) : tensor(std::move(t)), global(std::move(g)), start(std::move(s)) {}
};

/// A kernel, what goes in and what must come out.
struct KernelCase {
  std::string name;
  std::vector<Operand> inputs = {};
  std::vector<Operand> expected = {};
  Attributes attributes = {};
  StepParams params = {};
  /// Relative to |expected| + `scale`, the size of the terms that an element is made of.
  double tolerance = 2e-6;
  double scale = 1;
  /// Contents of the outputs before the run; absent: numbers that nothing may depend on.
  std::vector<Tensor> before = {};
  /// (output, input) that may be the same memory.
  std::vector<std::pair<int, int>> in_place = {};
  /// Elements by which every operand lies behind an aligned address.
  std::int64_t shift = 0;
  /// Bits must not depend on the number of threads.
  bool thread_independent = true;
};

/// Runs it with one thread and two, or twice on a GPU, apart and in place, and compares.
void expect_kernel(const KernelCase& c);

/// A case on a device: operands in its memory, working memory, parameters of the step.
class ReadyKernel {
 public:
  ReadyKernel(Device& device, const KernelCase& c, bool in_place = false);
  ~ReadyKernel();

  /// Once, and waits for it.
  void run();
  /// The outputs.
  std::vector<Tensor> results();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The outputs of a run.
std::vector<Tensor> run_kernel(Device& device, const KernelCase& c, bool in_place = false);

KernelSpec spec_of(const KernelCase& c);

/// Whether TESSERA_TEST_DEVICE=cuda asks for the tests of the kernels to run on a GPU, or on the emulator.
bool on_gpu();

/// The device under test with so many threads: made once.
Device& device_with(int threads);

/// Another one, for a test after which it is of no more use: what a GPU has found wrong stays.
std::unique_ptr<Device> new_device();

/// The numbers of rows and columns to try: below, at and above vector widths, tiles and blocks.
const std::vector<std::int64_t>& odd_sizes();

/// A part of a tensor, as a rank holds it.
Operand part_of(const Tensor& whole, const Shape& start, const Shape& size);

}  // namespace tessera::device::test
