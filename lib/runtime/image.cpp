#include "runtime/image.h"

#include <algorithm>

namespace tessera::runtime {

using partition::CollectiveCall;
using partition::CollectiveKind;
using partition::KernelCall;
using partition::Pool;
using partition::Program;
using partition::Section;

namespace {

std::string describe(const device::TensorSpec& tensor) {
  return fmt::format("{}{}@{}of{};", to_string(tensor.dtype), to_string(tensor.shape), to_string(tensor.start),
                     to_string(tensor.global));
}

std::string describe(const device::KernelSpec& spec, partition::Stream stream) {
  std::string text =
      fmt::format("{}/{}{}{}:", static_cast<int>(stream), spec.name, to_string(spec.attributes), spec.label);
  for (const auto& tensor : spec.inputs) text += describe(tensor);
  text += "->";
  for (const auto& tensor : spec.outputs) text += describe(tensor);
  return text;
}

const partition::ProgramValue& value_of(const Program& program, int value) {
  TESSERA_CHECK(value >= 0 && value < static_cast<int>(program.values.size()), "program {} has no value {}",
                program.name, value);
  return program.values[static_cast<std::size_t>(value)];
}

/// For the sentence of a wait that fails: "all_reduce of dense_1/kernel's gradient and 1 more, layer dense_1".
std::string describe(const Program& program, const CollectiveCall& call, const std::string& layer) {
  constexpr std::string_view kGradient = "grad ";
  const auto& name = value_of(program, call.segments.at(0).in).name;
  const bool is_gradient = name.starts_with(kGradient);
  return fmt::format("{} of {}{}{}{}", to_string(call.kind), is_gradient ? name.substr(kGradient.size()) : name,
                     is_gradient ? "'s gradient" : "",
                     call.segments.size() > 1 ? fmt::format(" and {} more", call.segments.size() - 1) : "",
                     layer.empty() ? "" : ", layer " + layer);
}

}  // namespace

ImageMaker::ImageMaker(const partition::Plan& plan, const Pools& pools, comm::World& world)
    : plan_(plan), pools_(pools), world_(world), coordinates_(plan.mesh.coordinates(world.rank())) {}

ProgramImage ImageMaker::make(const Program& program) {
  ProgramImage image;
  image.program = &program;
  for (int value = 0; value < static_cast<int>(program.values.size()); ++value)
    image.values.push_back(place_of(program, value).base);
  image.prologue = make_section(program, program.prologue);
  image.body = make_section(program, program.body);
  for (const auto& [name, section] : program.epilogues) image.epilogues[name] = make_section(program, section);
  return image;
}

// Where the own box begins in the value that it is cut from, along the leading dimension.
std::int64_t ImageMaker::slice_offset(const partition::ProgramValue& slice, const partition::ProgramValue& of) const {
  const auto from = mesh::owned(of.layout, plan_.mesh, coordinates_, of.shape).front();
  const auto box = mesh::owned(slice.layout, plan_.mesh, coordinates_, slice.shape).front();
  const auto strides = strides_of(of.local);
  std::int64_t elements = 0;
  for (std::size_t d = 0; d < box.start.size(); ++d) elements += (box.start[d] - from.start[d]) * strides[d];
  return elements * size_of(slice.dtype);
}

// Null for a value without memory: nothing may touch it.
ImageMaker::Place ImageMaker::place_of(const Program& program, int value) const {
  const auto& v = value_of(program, value);
  Place place;
  if (v.state >= 0) {
    TESSERA_CHECK(v.state < static_cast<int>(plan_.state.size()), "value {} lives in state {}", v.name, v.state);
    const auto& state = plan_.state[static_cast<std::size_t>(v.state)];
    place.base = pools_.at(state.pool) + state.offset;
  } else if (v.inside >= 0) {
    place = place_of(program, v.inside);
    place.base += v.slice ? slice_offset(v, value_of(program, v.inside)) : v.inside_offset;
  } else if (v.offset >= 0) {
    const auto pool_bytes = plan_.pool_bytes[static_cast<std::size_t>(v.pool)];
    TESSERA_CHECK(v.offset + v.bytes <= pool_bytes, "{} ends at {} of a pool of {} bytes", v.name, v.offset + v.bytes,
                  pool_bytes);
    // Kernels read an input where the device has it.
    const bool uploaded = v.pool == Pool::kStaging && pools_.at(Pool::kUploads) != nullptr;
    place.base = pools_.at(uploaded ? Pool::kUploads : v.pool) + v.offset;
  }
  place.stride += v.micro_stride;
  return place;
}

ImageMaker::Place ImageMaker::memory_of(const Program& program, int value) const {
  const auto place = place_of(program, value);
  TESSERA_CHECK(place.base != nullptr, "{} of program {} is used but has no memory", value_of(program, value).name,
                program.name);
  return place;
}

device::TensorSpec ImageMaker::tensor_spec(const partition::ProgramValue& value) const {
  device::TensorSpec spec{value.local, value.dtype, value.shape, Shape(value.local.size(), 0)};
  // A packed or bucketed value has a shape of its own: it lies nowhere in a global tensor.
  if (value.layout.dims.size() == value.shape.size() && mesh::is_even(value.layout, plan_.mesh, value.shape))
    if (const auto box = mesh::owned(value.layout, plan_.mesh, coordinates_, value.shape).front();
        box.size == value.local) {
      spec.start = box.start;
      return spec;
    }
  spec.global = spec.shape;
  return spec;
}

SectionImage ImageMaker::make_section(const Program& program, const Section& section) {
  SectionImage image;
  std::vector<std::int64_t> ordinal;  // within its stream
  for (const auto& instruction : section.instructions) {
    Step step;
    step.instruction = &instruction;
    step.number = static_cast<int>(image.steps.size());
    for (const int wait : instruction.waits) {
      TESSERA_CHECK(wait >= 0 && wait < static_cast<int>(ordinal.size()), "a wait for instruction {}", wait);
      const auto& other = section.instructions[static_cast<std::size_t>(wait)];
      TESSERA_CHECK(other.stream != instruction.stream, "a wait within one stream");
      step.wait_for = std::max(step.wait_for, ordinal[static_cast<std::size_t>(wait)] + 1);
    }
    if (step.wait_for > 0) {
      const auto& others = image.of_stream[1 - static_cast<std::size_t>(instruction.stream)];
      auto& last = image.steps[static_cast<std::size_t>(others[static_cast<std::size_t>(step.wait_for - 1)])];
      if (last.own_event < 0) last.own_event = events_++;
      step.wait_event = last.own_event;
    }
    std::visit([&](const auto& call) { prepare(step, program, call); }, instruction.what);
    auto& of_stream = image.of_stream[static_cast<std::size_t>(instruction.stream)];
    ordinal.push_back(static_cast<std::int64_t>(of_stream.size()));
    of_stream.push_back(static_cast<int>(image.steps.size()));
    image.steps.push_back(std::move(step));
  }
  mark_layers(image);
  return image;
}

// Where a device fails beside its host, the marks tell in which layer.
void ImageMaker::mark_layers(SectionImage& image) {
  Step* last = nullptr;
  for (auto& step : image.steps) {
    if (step.kernel < 0) continue;
    if (last != nullptr && last->own_event < 0 && last->instruction->layer != step.instruction->layer)
      last->own_event = events_++;
    last = &step;
  }
  if (last != nullptr && last->own_event < 0) last->own_event = events_++;
}

void ImageMaker::prepare(Step& step, const Program& program, const KernelCall& call) {
  device::KernelSpec spec{call.kernel, {}, {}, call.attributes};
  for (const int value : call.inputs) spec.inputs.push_back(tensor_spec(value_of(program, value)));
  for (const int value : call.outputs) spec.outputs.push_back(tensor_spec(value_of(program, value)));
  if (call.kernel == "keep_or_zero") {
    const auto& axes = call.attributes.get<std::vector<std::int64_t>>("axes");
    spec.attributes.set("keep", std::all_of(axes.begin(), axes.end(), [&](std::int64_t axis) {
                          return coordinates_[static_cast<std::size_t>(axis)] == 0;
                        }));
  }
  if (device::checks_data(spec.name)) spec.label = step.instruction->layer;
  step.what = fmt::format("{}, layer {}", spec.name, step.instruction->layer);
  step.kernel = kernel_index(std::move(spec), step.instruction->stream);

  for (std::int64_t m = 0; m < program.micro_batches; ++m) {
    Step::Operands operands;
    for (const int value : call.inputs) operands.inputs.push_back(memory_of(program, value).at(m));
    for (const int value : call.outputs) operands.outputs.push_back(memory_of(program, value).at(m));
    step.operands.push_back(std::move(operands));
  }
}

void ImageMaker::prepare(Step& step, const Program& program, const CollectiveCall& call) {
  const auto group = plan_.mesh.group(world_.rank(), call.axes);
  TESSERA_CHECK(step.instruction->stream == partition::Stream::kComm, "a collective in the compute stream");
  step.communicator = &world_.communicator(group);
  step.own_event = events_++;  // a rank that doesn't come is found by the first collective that has not ended
  step.what = describe(program, call, step.instruction->layer);
  step.reduce = call.reduce == graph::ReduceKind::kMax ? comm::Reduce::kMax : comm::Reduce::kSum;
  if (call.kind == CollectiveKind::kBoxExchange) {
    TESSERA_CHECK(call.segments.size() == 1, "a box exchange of {} segments", call.segments.size());
    const auto& in = value_of(program, call.segments[0].in);
    const auto& out = value_of(program, call.segments[0].out);
    step.transfers = box_transfers(plan_.mesh, group, world_.rank(), in.shape, in.layout, out.layout);
  }
  for (std::int64_t m = 0; m < program.micro_batches; ++m) {
    Step::Operands operands;
    for (const auto& segment : call.segments)
      operands.pieces.push_back({memory_of(program, segment.in).at(m), memory_of(program, segment.out).at(m),
                                 elements(value_of(program, segment.in).local)});
    step.operands.push_back(std::move(operands));
  }
}

int ImageMaker::kernel_index(device::KernelSpec spec, partition::Stream stream) {
  const auto [it, is_new] = index_of_kernel_.try_emplace(describe(spec, stream), static_cast<int>(kernels_.size()));
  if (is_new)
    kernels_.push_back(
        {std::move(spec), stream == partition::Stream::kComm ? device::Stream::kComm : device::Stream::kCompute});
  return it->second;
}

}  // namespace tessera::runtime
