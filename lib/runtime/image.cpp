#include "runtime/image.h"

#include <algorithm>

namespace tessera::runtime {

using partition::CollectiveCall;
using partition::CollectiveKind;
using partition::KernelCall;
using partition::Program;
using partition::Section;

namespace {

std::string describe(const device::TensorSpec& tensor) {
  return fmt::format("{}{}@{}of{};", to_string(tensor.dtype), to_string(tensor.shape), to_string(tensor.start),
                     to_string(tensor.global));
}

std::string describe(const device::KernelSpec& spec, partition::Stream stream) {
  std::string text = fmt::format("{}/{}{}:", static_cast<int>(stream), spec.name, to_string(spec.attributes));
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

/// For the sentence of a wait that fails.
std::string describe(const Program& program, const CollectiveCall& call) {
  constexpr std::string_view kGradient = "grad ";
  const auto& name = value_of(program, call.segments.at(0).in).name;
  const bool is_gradient = name.starts_with(kGradient);
  return fmt::format("{} of {}{}{}", to_string(call.kind), is_gradient ? name.substr(kGradient.size()) : name,
                     is_gradient ? "'s gradient" : "",
                     call.segments.size() > 1 ? fmt::format(" and {} more", call.segments.size() - 1) : "");
}

bool is_input(const Program& program, int value) {
  return std::find(program.inputs.begin(), program.inputs.end(), value) != program.inputs.end();
}

}  // namespace

ImageMaker::ImageMaker(const partition::Plan& plan, const Pools& pools, device::Device& device, comm::World& world)
    : plan_(plan), pools_(pools), device_(device), world_(world), coordinates_(plan.mesh.coordinates(world.rank())) {}

ProgramImage ImageMaker::make(const Program& program) {
  ProgramImage image;
  image.program = &program;
  for (int value = 0; value < static_cast<int>(program.values.size()); ++value)
    image.values.push_back(place_of(program, value, Part::kEpilogue).base);
  image.prologue = make_section(program, program.prologue, Part::kPrologue);
  image.body = make_section(program, program.body, Part::kBody);
  for (const auto& [name, section] : program.epilogues)
    image.epilogues[name] = make_section(program, section, Part::kEpilogue);
  return image;
}

ImageMaker::Place ImageMaker::place_of(const Program& program, int value, Part part) const {
  const auto& v = value_of(program, value);
  Place place;
  if (v.state >= 0) {
    TESSERA_CHECK(v.state < static_cast<int>(plan_.state.size()), "value {} lives in state {}", v.name, v.state);
    const auto& state = plan_.state[static_cast<std::size_t>(v.state)];
    place.base = pools_.at(partition::Pool::kState) + state.offset;
  } else if (v.inside >= 0) {
    place = place_of(program, v.inside, part);
    place.base += v.inside_offset;
    place.whole_input = false;
  } else if (v.offset >= 0) {
    place.base = pools_.at(v.pool) + v.offset;
    if (part == Part::kBody && program.micro_batches > 1 && is_input(program, value)) {
      place.stride = v.bytes / program.micro_batches;
      place.whole_input = true;
    }
  }
  return place;
}

device::TensorSpec ImageMaker::tensor_spec(const Program& program, int value, Part part) const {
  const auto& v = value_of(program, value);
  device::TensorSpec spec{v.local, v.dtype, v.shape, Shape(v.local.size(), 0)};
  const bool one_of_several = place_of(program, value, part).whole_input;
  if (one_of_several) {
    spec.shape[0] /= program.micro_batches;
    spec.global[0] /= program.micro_batches;
  }
  // A packed or bucketed value has a shape of its own: it lies nowhere in a global tensor.
  const auto boxes = mesh::owned(v.layout, plan_.mesh, coordinates_, spec.global);
  if (boxes.size() == 1 && boxes.front().size == spec.shape)
    spec.start = boxes.front().start;
  else
    spec.global = spec.shape;
  return spec;
}

SectionImage ImageMaker::make_section(const Program& program, const Section& section, Part part) {
  SectionImage image;
  std::vector<std::int64_t> ordinal;  // within its stream
  for (const auto& instruction : section.instructions) {
    Step step;
    step.instruction = &instruction;
    step.index = static_cast<int>(image.steps.size());
    for (const int wait : instruction.waits) {
      TESSERA_CHECK(wait >= 0 && wait < static_cast<int>(ordinal.size()), "a wait for instruction {}", wait);
      const auto& other = section.instructions[static_cast<std::size_t>(wait)];
      TESSERA_CHECK(other.stream != instruction.stream, "a wait within one stream");
      step.wait_for = std::max(step.wait_for, ordinal[static_cast<std::size_t>(wait)] + 1);
    }
    std::visit([&](const auto& call) { prepare(step, program, call, part); }, instruction.what);
    auto& of_stream = image.of_stream[static_cast<std::size_t>(instruction.stream)];
    ordinal.push_back(static_cast<std::int64_t>(of_stream.size()));
    of_stream.push_back(static_cast<int>(image.steps.size()));
    image.steps.push_back(std::move(step));
  }
  return image;
}

void ImageMaker::prepare(Step& step, const Program& program, const KernelCall& call, Part part) {
  device::KernelSpec spec{call.kernel, {}, {}, call.attributes};
  bool moves = false;
  const auto add = [&](const std::vector<int>& values, std::vector<device::TensorSpec>& specs) {
    for (const int value : values) {
      specs.push_back(tensor_spec(program, value, part));
      const auto place = place_of(program, value, part);
      TESSERA_CHECK(place.base != nullptr, "{} of kernel {} has no memory", value_of(program, value).name, call.kernel);
      moves = moves || place.stride != 0;
    }
  };
  add(call.inputs, spec.inputs);
  add(call.outputs, spec.outputs);

  if (call.kernel == "keep_or_zero") {
    const auto& axes = call.attributes.get<std::vector<std::int64_t>>("axes");
    spec.attributes.set("keep", std::all_of(axes.begin(), axes.end(), [&](std::int64_t axis) {
                          return coordinates_[static_cast<std::size_t>(axis)] == 0;
                        }));
  }
  if (part == Part::kPrologue && program.micro_batches > 1)
    spec.attributes.set("micro_batches", program.micro_batches);  // the rows of the whole batch are micro-batch-major
  step.kernel = &kernel_for(spec, step.instruction->stream);

  const auto count = moves ? program.micro_batches : 1;
  for (std::int64_t m = 0; m < count; ++m) {
    Step::Operands operands;
    const auto pointer = [&](int value) {
      const auto place = place_of(program, value, part);
      return place.base + m * place.stride;
    };
    for (const int value : call.inputs) operands.inputs.push_back(pointer(value));
    for (const int value : call.outputs) operands.outputs.push_back(pointer(value));
    step.operands.push_back(std::move(operands));
  }
}

void ImageMaker::prepare(Step& step, const Program& program, const CollectiveCall& call, Part part) {
  const auto group = plan_.mesh.group(world_.rank(), call.axes);
  step.communicator = &world_.communicator(group);
  step.what = describe(program, call);
  step.reduce = call.reduce == graph::ReduceKind::kMax ? comm::Reduce::kMax : comm::Reduce::kSum;
  if (call.kind == CollectiveKind::kBoxExchange) {
    TESSERA_CHECK(call.segments.size() == 1, "a box exchange of {} segments", call.segments.size());
    const auto& in = value_of(program, call.segments[0].in);
    const auto& out = value_of(program, call.segments[0].out);
    step.transfers = box_transfers(plan_.mesh, group, world_.rank(),
                                   tensor_spec(program, call.segments[0].in, part).global, in.layout, out.layout);
  }

  bool moves = false;
  for (const auto& segment : call.segments)
    moves =
        moves || place_of(program, segment.in, part).stride != 0 || place_of(program, segment.out, part).stride != 0;
  const auto count = moves ? program.micro_batches : 1;
  for (std::int64_t m = 0; m < count; ++m) {
    Step::Operands operands;
    for (const auto& segment : call.segments) {
      const auto in = place_of(program, segment.in, part);
      const auto out = place_of(program, segment.out, part);
      TESSERA_CHECK(in.base && out.base, "{} has no memory", value_of(program, segment.in).name);
      operands.pieces.push_back(
          {in.base + m * in.stride, out.base + m * out.stride, elements(tensor_spec(program, segment.in, part).shape)});
    }
    step.operands.push_back(std::move(operands));
  }
}

device::Kernel& ImageMaker::kernel_for(const device::KernelSpec& spec, partition::Stream stream) {
  auto& kernel = kernel_by_spec_[describe(spec, stream)];
  if (!kernel) {
    kernels_.push_back(device_.make_kernel(spec));
    kernel = kernels_.back().get();
  }
  return *kernel;
}

}  // namespace tessera::runtime
