// What kernels move on a GPU, counted by the emulator: they read and write each tensor once, and little else. The table
// of docs/kernels.md is kept here.
#include <algorithm>
#include <cuda_emulator/control.h>
#include <fstream>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/text.h"
#include "device/cuda.h"
#include "device/cuda/scratch.h"
#include "device/traffic_cases.h"
#include "support/document.h"

namespace tessera::device::test {
namespace {

/// What a kernel may move beside the minimum.
constexpr double kMost = 1.1;

struct Moved {
  double minimum;
  // Memory moves the different sectors of each launch: of what a launch touches again the caches have most. That alone
  // would let a kernel pass that goes through its operands twice, so what its threads ask for is held too.
  double by_memory, by_threads;
  std::uint64_t launches, copies;
};

/// What `work` has done beside `idle`.
template <class Idle, class Work>
Moved count(const Idle& idle, const Work& work) {
  cuda_emulator::reset_traffic();
  idle();
  const auto before = cuda_emulator::traffic();
  cuda_emulator::reset_traffic();
  work();
  const auto t = cuda_emulator::traffic();
  const auto copied = static_cast<double>(t.copied.sum() - before.copied.sum());
  return {0, static_cast<double>(t.unique.sum()) + copied, static_cast<double>(t.requested.sum()) + copied, t.launches,
          t.copies - before.copies};
}

Moved count(Device& gpu, const TrafficCase& traffic, const Shape& shape) {
  const auto c = traffic.make(shape);
  ReadyKernel kernel(gpu, c);
  auto moved = count([&] { gpu.synchronize(); }, [&] { kernel.run(); });
  moved.minimum = static_cast<double>(traffic.minimum ? traffic.minimum(c) : operand_bytes(c));
  return moved;
}

std::string text_of(const Shape& shape) {
  std::vector<std::string> sizes;
  for (const auto n : shape) sizes.push_back(std::to_string(n));
  return join(sizes, " x ");
}

/// A line of the table: what was counted at each size.
class Line {
 public:
  explicit Line(const TrafficCase& traffic) : traffic_(traffic) {}

  void add(const Shape& shape, const Moved& m) {
    cell(sizes_, text_of(shape));
    cell(minimum_, fmt::format("{:.0f}", m.minimum / 1024));
    cell(by_memory_, fmt::format("{:.3f}", m.by_memory / m.minimum));
    cell(by_threads_, fmt::format("{:.2f}", m.by_threads / m.minimum));
    launches_ = std::max(launches_, m.launches);
    copies_ = std::max(copies_, m.copies);
  }

  std::string text() const {
    std::vector<std::string> notes;
    if (!traffic_.which_minimum.empty()) notes.push_back("minimum: " + traffic_.which_minimum);
    if (!traffic_.asked_again.empty()) notes.push_back("asked for again: " + traffic_.asked_again);
    const auto launches = copies_ == 0 ? std::to_string(launches_) : fmt::format("{} + {}", launches_, copies_);
    return "| " +
           join({traffic_.title, sizes_, minimum_, by_memory_, by_threads_, launches, join(notes, "; ")}, " | ") +
           " |\n";
  }

 private:
  static void cell(std::string& list, const std::string& text) { list += (list.empty() ? "" : ", ") + text; }

  const TrafficCase& traffic_;
  std::string sizes_, minimum_, by_memory_, by_threads_;
  std::uint64_t launches_ = 0, copies_ = 0;
};

TEST(Traffic, OfEveryKernelIsItsOperandsAndLittleElse) {
  const auto gpu = cuda_backend().make_device({});
  std::string table =
      "| kernel | sizes | minimum, KiB | moved / minimum | asked for / minimum | launches + copies | |\n"
      "|---|---|---|---|---|---|---|\n";
  for (const auto& traffic : traffic_cases()) {
    Line line(traffic);
    double most_asked = 0;
    for (const auto& shape : traffic.shapes) {
      const auto m = count(*gpu, traffic, shape);
      EXPECT_LE(m.by_memory, kMost * m.minimum) << traffic.title << " " << text_of(shape);
      EXPECT_GE(m.by_memory, m.minimum) << traffic.title << " " << text_of(shape) << ": what isn't moved?";
      most_asked = std::max(most_asked, m.by_threads / m.minimum);
      line.add(shape, m);
    }
    EXPECT_EQ(most_asked > kMost, !traffic.asked_again.empty())
        << traffic.title << ": " << most_asked << " times the minimum is asked for";
    table += line.text();
  }
  tessera::test::expect_table("kernels.md", "traffic", table);
}

/// The names in the kernel table of lib/device/README.md.
std::set<std::string> kernel_names() {
  std::ifstream readme(TESSERA_SOURCE_DIR "/lib/device/README.md");
  std::set<std::string> names;
  for (std::string line; std::getline(readme, line);)
    if (line.starts_with("| `")) names.insert(line.substr(3, line.find('`', 3) - 3));
  return names;
}

TEST(Traffic, IsCountedOfEveryKernelButMatmul) {
  std::set<std::string> counted{"matmul"};
  for (const auto& traffic : traffic_cases()) counted.insert(traffic.make(traffic.shapes[0]).name);
  EXPECT_EQ(counted, kernel_names());
}

/// Whether each thread asks for a number of its row, which in short rows counts beside them.
bool has_row_numbers(const KernelCase& c) {
  if (c.name == "match_rows") return true;  // the first, with which the largest is sought
  return std::any_of(c.inputs.begin(), c.inputs.end(),
                     [&](const Operand& o) { return o.tensor.size() < c.inputs[0].tensor.size(); });
}

/// Rows of other lengths, which registers hold in other ways.
TEST(Traffic, OfShorterAndLongerRowsIsTheirOperandsToo) {
  const auto gpu = cuda_backend().make_device({});
  for (const auto& traffic : traffic_cases()) {
    const auto& name = traffic.title;
    if (traffic.shapes[0].size() != 2 || name.starts_with("`layer_norm_b") || name.starts_with("`emb")) continue;
    for (const auto& shape : {Shape{500, 32}, {160, 100}, {64, 257}, {8, 2048}, {4, 8192}}) {
      const auto m = count(*gpu, traffic, shape);
      EXPECT_LE(m.by_memory, kMost * m.minimum) << name << " " << text_of(shape);
      if (!traffic.asked_again.empty() || has_row_numbers(traffic.make(shape))) continue;
      EXPECT_LE(m.by_threads, kMost * m.minimum) << name << " " << text_of(shape);
    }
  }
}

/// The formula of docs/kernels.md: sums of dgamma and dbeta of each block, written and read.
TEST(Traffic, OfLayerNormBackwardIsItsOperandsAndPartialSums) {
  const auto gpu = cuda_backend().make_device({});
  for (const auto& traffic : traffic_cases()) {
    if (traffic.title != "`layer_norm_backward`, all") continue;
    for (const auto& [rows, cols] : {Rows{500, 32}, {96, 1024}, {40, 1028}, {20, 4096}}) {
      const auto m = count(*gpu, traffic, {rows, cols});
      const auto partial = 4.0 * static_cast<double>(4 * cols * cuda::layer_norm_blocks({rows, cols}));
      EXPECT_NEAR(m.by_memory, m.minimum + partial, 0.01 * m.minimum) << rows << " x " << cols;
      EXPECT_EQ(m.launches, 2U);
    }
  }
}

}  // namespace
}  // namespace tessera::device::test
