#include "runtime/finite.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/error.h"

namespace tessera::runtime {
namespace {

template <typename T>
std::int64_t first_bad(device::Device& device, const void* values, std::int64_t count) {
  constexpr std::int64_t kChunk = std::int64_t{1} << 20;
  std::vector<T> host(static_cast<std::size_t>(std::min(kChunk, count)));
  for (std::int64_t first = 0; first < count; first += kChunk) {
    const auto part = std::min(kChunk, count - first);
    device.copy_out(host.data(), static_cast<const T*>(values) + first, part * static_cast<std::int64_t>(sizeof(T)));
    const auto bad =
        std::find_if(host.begin(), host.begin() + part, [](T x) { return !std::isfinite(x); }) - host.begin();
    if (bad < part) return first + bad;
  }
  return -1;
}

/// What an instruction reads and writes, with its memory.
struct Access {
  int value;
  const void* memory;
};

}  // namespace

std::int64_t bad_element(device::Device& device, const partition::ProgramValue& value, const void* memory) {
  const auto count = elements(value.local);
  if (value.dtype == DType::kF32) return first_bad<float>(device, memory, count);
  if (value.dtype == DType::kF64) return first_bad<double>(device, memory, count);
  TESSERA_CHECK(!is_float(value.dtype), "values of {} cannot be looked at", to_string(value.dtype));
  return -1;
}

void require_finite(device::Device& device, const partition::Program& program, const Step& step,
                    const device::StepParams& params) {
  const auto& operands = step.operands[static_cast<std::size_t>(params.micro_batch)];
  std::vector<Access> reads, writes;
  if (const auto* call = std::get_if<partition::KernelCall>(&step.instruction->what)) {
    for (std::size_t k = 0; k < call->inputs.size(); ++k) reads.push_back({call->inputs[k], operands.inputs[k]});
    for (std::size_t k = 0; k < call->outputs.size(); ++k) writes.push_back({call->outputs[k], operands.outputs[k]});
  } else {
    const auto& collective = std::get<partition::CollectiveCall>(step.instruction->what);
    for (std::size_t k = 0; k < collective.segments.size(); ++k) {
      reads.push_back({collective.segments[k].in, operands.pieces[k].in});
      writes.push_back({collective.segments[k].out, operands.pieces[k].out});
    }
  }
  const auto value_of = [&](const Access& access) -> const partition::ProgramValue& {
    return program.values[static_cast<std::size_t>(access.value)];
  };
  for (const auto& write : writes) {
    const auto bad = bad_element(device, value_of(write), write.memory);
    if (bad < 0) continue;
    std::string cause = "what it read is finite";
    for (const auto& read : reads) {  // what it wrote in place can't be told
      if (read.memory == write.memory || bad_element(device, value_of(read), read.memory) < 0) continue;
      cause = fmt::format("'{}', which it read, was not finite before", value_of(read).name);
      break;
    }
    fail(ExitCode::kNotFinite,
         "step {}: the first value that is not finite is element {} of '{}', by {} (instruction {}); {}", params.step,
         bad, value_of(write).name, step.what, step.number, cause);
  }
}

}  // namespace tessera::runtime
