// Mistakes made in the product's own kernels and in what they are given, each of which the emulator must name:
// - a barrier left out, each of the kernels': the race, or the shared memory that nobody has written;
// - a host pointer as operand: the access;
// - a buffer one element short: the access past its end.
// The kernels that have barriers are compiled into this program a second time, with barriers.h in front.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <numeric>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "core/error.h"
#include "cuda_emulator/control.h"
#include "device/cuda.h"
#include "device/device.h"
#include "emulated/barriers.h"

namespace tessera::mutations {
namespace {

using device::KernelSpec;
using device::TensorSpec;
using ::testing::AnyOf;
using ::testing::HasSubstr;

/// A kernel and what lies in its inputs: element i of each is fill(i).
struct Call {
  KernelSpec spec;
  std::function<double(std::int64_t)> fill = [](std::int64_t i) { return 0.25 + static_cast<double>(i % 7); };
};

std::int64_t bytes_of(const TensorSpec& tensor) { return elements(tensor.shape) * size_of(tensor.dtype); }

std::vector<std::byte> contents(const TensorSpec& tensor, const Call& call) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(bytes_of(tensor)));
  for (std::int64_t i = 0; i < elements(tensor.shape); ++i) {
    const auto number = call.fill(i);
    const auto put = [&](auto value) {
      std::memcpy(bytes.data() + i * static_cast<std::int64_t>(sizeof value), &value, sizeof value);
    };
    tensor.dtype == DType::kI32   ? put(static_cast<std::int32_t>(number))
    : tensor.dtype == DType::kF64 ? put(number)
                                  : put(static_cast<float>(number));
  }
  return bytes;
}

/// What can be wrong with the operands of a run.
enum class Operands : std::uint8_t { kRight, kHostInput, kHostOutput, kShortInput, kShortOutput };

/// Runs the kernel on a device of its own and returns what the emulator has found.
std::string fault_of(const Call& call, Operands operands = Operands::kRight) {
  const auto device = device::cuda_backend().make_device({});
  std::vector<std::shared_ptr<void>> memory;
  std::vector<std::vector<std::byte>> host;
  const auto allocate = [&](const TensorSpec& tensor, bool on_host, bool is_short) -> void* {
    const auto bytes = bytes_of(tensor) - (is_short ? size_of(tensor.dtype) : 0);
    auto values = contents(tensor, call);
    if (on_host) return host.emplace_back(std::move(values)).data();
    memory.push_back(device->allocate(bytes));
    device->copy_in(memory.back().get(), values.data(), bytes);
    return memory.back().get();
  };
  const auto scratch = device::scratch_bytes(device::DeviceKind::kCuda, call.spec);
  if (scratch > 0) device->set_scratch(memory.emplace_back(device->allocate(scratch)).get(), scratch);
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  for (std::size_t k = 0; k < call.spec.inputs.size(); ++k)
    inputs.push_back(allocate(call.spec.inputs[k], k == 0 && operands == Operands::kHostInput,
                              k == 0 && operands == Operands::kShortInput));
  for (std::size_t k = 0; k < call.spec.outputs.size(); ++k)
    outputs.push_back(allocate(call.spec.outputs[k], k == 0 && operands == Operands::kHostOutput,
                               k == 0 && operands == Operands::kShortOutput));
  const auto kernel = device->make_kernel(call.spec);
  try {
    device->begin_step({.step = 1, .learning_rate = 0.1});
    kernel->run(inputs.data(), outputs.data(), {});
    device->synchronize();
  } catch (const Error&) {
    return cuda_emulator::take_fault();
  }
  return cuda_emulator::take_fault();
}

TensorSpec f32(Shape shape) { return {std::move(shape), DType::kF32}; }

/// Kernels that come to every barrier, several times where it separates rounds.
std::vector<Call> with_barriers() {
  std::vector<Call> calls;
  // Columns in parts, and more blocks' work than there are blocks.
  calls.push_back({{"reduce_sum", {f32({300, 40})}, {f32({40})}, {{"dims", std::vector<std::int64_t>{0}}}}});
  calls.push_back({{"reduce_sum", {f32({4200, 2, 3})}, {f32({4200, 3})}, {{"dims", std::vector<std::int64_t>{1}}}}});
  // Rows in teams of a warp's part and of a whole block, several for each.
  for (const std::int64_t cols : {24, 1500})
    calls.push_back({{"layer_norm_backward",
                      {f32({40, cols}), f32({40, cols}), f32({40}), f32({40}), f32({cols})},
                      {f32({40, cols}), f32({cols}), f32({cols})},
                      {{"scale", true}, {"center", true}, {"needs", std::string("xgb")}}}});
  calls.push_back(
      {{"clip_by_norm", {f32({3000}), {{}, DType::kF64}}, {f32({3000})}, {{"norm", 0.5}, {"global", true}}}});
  // Ids of two digits, in two tiles.
  calls.push_back({{"embedding_backward", {{{2100}, DType::kI32}, f32({2100, 4})}, {f32({300, 4})}, {}},
                   [](std::int64_t i) { return static_cast<double>(i * 37 % 300); }});
  return calls;
}

/// Lines of the kernels' files on which there is a barrier.
std::set<Place> barriers_in_sources() {
  std::set<Place> places;
  for (const auto& entry : std::filesystem::directory_iterator(TESSERA_SOURCE_DIR "/lib/device/cuda")) {
    std::ifstream file(entry.path());
    int line = 1;
    for (std::string text; std::getline(file, text); ++line)
      if (text.find("__syncthreads") != std::string::npos) places.emplace(entry.path().filename(), line);
  }
  return places;
}

class KernelMutations : public testing::Test {
 protected:
  KernelMutations() {
    cuda_emulator::set_patience(std::chrono::seconds(20));
    cuda_emulator::take_fault();
  }
  ~KernelMutations() override { leave_out({}); }
};

TEST_F(KernelMutations, EveryBarrierOfTheKernelsIsMissedWhereItIsLeftOut) {
  std::map<Place, std::vector<Call>> users;
  for (const auto& call : with_barriers()) {
    barriers().clear();
    EXPECT_EQ(fault_of(call), "") << to_string(call.spec.attributes) << " " << call.spec.name;
    for (const auto& barrier : barriers()) users[barrier].push_back(call);
  }
  std::set<Place> reached;
  for (const auto& [barrier, calls] : users) {
    reached.insert(barrier);
    leave_out(barrier);
    std::string fault;
    for (const auto& call : calls)
      if (fault.empty()) fault = fault_of(call);
    EXPECT_THAT(fault, AnyOf(HasSubstr("race"), HasSubstr("has not written")))
        << barrier.first << ":" << barrier.second;
  }
  EXPECT_EQ(reached, barriers_in_sources());
}

/// A kernel of each way to move through memory: flat, row by row, by a copy of any shape, by a sum.
std::vector<Call> kernels_of_all_kinds() {
  return {
      {{"elementwise", {f32({33})}, {f32({33})}, {{"program", std::string("relu i0")}}}},
      {{"softmax", {f32({5, 33})}, {f32({5, 33})}, {}}},
      {{"cast", {f32({33})}, {{{33}, DType::kF64}}, {}}},
      {{"add_n", {f32({33}), f32({33})}, {f32({33})}, {}}},
      {{"broadcast_to", {f32({3, 1})}, {f32({3, 11})}, {}}},
      {{"reduce_sum", {f32({33, 5})}, {f32({5})}, {{"dims", std::vector<std::int64_t>{0}}}}},
      {{"sgd_update", {f32({33}), f32({33})}, {f32({33})}, {}}},
  };
}

TEST_F(KernelMutations, AHostPointerIsNamed) {
  for (const auto& call : kernels_of_all_kinds()) {
    SCOPED_TRACE(call.spec.name);
    EXPECT_EQ(fault_of(call), "");
    EXPECT_THAT(fault_of(call, Operands::kHostInput), HasSubstr("read of host memory by a kernel"));
    EXPECT_THAT(fault_of(call, Operands::kHostOutput), HasSubstr("of host memory by a kernel"));
  }
}

TEST_F(KernelMutations, AnAccessPastTheEndIsNamed) {
  for (const auto& call : kernels_of_all_kinds()) {
    SCOPED_TRACE(call.spec.name);
    EXPECT_THAT(fault_of(call, Operands::kShortInput),
                AllOf(HasSubstr("read: "), HasSubstr("pass the end of the allocation")));
    EXPECT_THAT(fault_of(call, Operands::kShortOutput), HasSubstr("pass the end of the allocation"));
  }
}

// Nobody takes the fault back: the process ends with the emulator's code, whatever the program makes of the error.
TEST_F(KernelMutations, AFaultEndsTheProcessWithItsCode) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto write_past_the_end = [] {
    const auto device = device::cuda_backend().make_device({});
    const auto y = device->allocate(32 * 4);
    const auto kernel = device->make_kernel({"fill", {}, {f32({33})}, {{"value", 1.0}}});
    void* const out = y.get();
    kernel->run(nullptr, &out, {});
    try {
      device->synchronize();
    } catch (const Error&) {
    }
    std::exit(0);
  };
  EXPECT_EXIT(write_past_the_end(), testing::ExitedWithCode(98), "write: 4 bytes there pass the end");
}

}  // namespace
}  // namespace tessera::mutations
