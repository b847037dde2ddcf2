#include "report/plan_json.h"

#include <nlohmann/json.hpp>

#include "partition/plan.h"

namespace tessera::report {

using Json = nlohmann::ordered_json;
using partition::CollectiveCall;
using partition::KernelCall;
using partition::Plan;
using partition::Program;
using partition::Section;

namespace {

Json axes_json(const std::vector<mesh::Axis>& axes, const mesh::DeviceMesh& mesh) {
  auto json = Json::array();
  for (const auto axis : axes) json.push_back(mesh.axis_names()[static_cast<std::size_t>(axis)]);
  return json;
}

Json layout_json(const mesh::Layout& layout, const mesh::DeviceMesh& mesh) {
  Json json{{"dims", Json::array()}};
  for (const auto& dim : layout.dims) json["dims"].push_back(axes_json(dim, mesh));
  if (!layout.partial.empty()) json["partial"] = axes_json(layout.partial, mesh);
  return json;
}

std::string_view role_name(graph::VariableRole role) {
  switch (role) {
    case graph::VariableRole::kWeight:
      return "weight";
    case graph::VariableRole::kSlot:
      return "slot";
    case graph::VariableRole::kMetric:
      return "metric";
    case graph::VariableRole::kGradient:
      return "gradient";
  }
  return "";
}

Json state_json(const partition::StateBuffer& s, const mesh::DeviceMesh& mesh) {
  return {{"path", s.variable.path},
          {"role", role_name(s.variable.role)},
          {"trainable", s.variable.trainable},
          {"shape", s.shape},
          {"dtype", to_string(s.dtype)},
          {"layout", layout_json(s.layout, mesh)},
          {"local", s.local},
          {"bytes", s.bytes},
          {"pool", to_string(s.pool)},
          {"offset", s.offset}};
}

Json value_json(const partition::ProgramValue& v, const mesh::DeviceMesh& mesh) {
  Json json{
      {"name", v.name},   {"shape", v.shape}, {"dtype", to_string(v.dtype)}, {"layout", layout_json(v.layout, mesh)},
      {"local", v.local}, {"bytes", v.bytes}};
  if (v.state >= 0) {
    json["state"] = v.state;
  } else if (v.inside >= 0) {
    json["inside"] = v.inside;
    json["inside_offset"] = v.inside_offset;
  } else {
    json["pool"] = to_string(v.pool);
    json["offset"] = v.offset;
  }
  if (v.micro_stride != 0) json["micro_stride"] = v.micro_stride;
  return json;
}

Json attribute_json(const Attribute& attribute) {
  return std::visit([](const auto& value) { return Json(value); }, attribute);
}

Json call_json(const KernelCall& call, const mesh::DeviceMesh&) {
  Json json{{"kernel", call.kernel}, {"inputs", call.inputs}, {"outputs", call.outputs}};
  for (const auto& [name, value] : call.attributes.items()) json["attributes"][name] = attribute_json(value);
  return json;
}

Json call_json(const CollectiveCall& call, const mesh::DeviceMesh& mesh) {
  Json json{
      {"collective", to_string(call.kind)}, {"axes", axes_json(call.axes, mesh)}, {"dtype", to_string(call.dtype)}};
  if (call.reduce == graph::ReduceKind::kMax) json["reduce"] = "max";
  json["segments"] = Json::array();
  for (const auto& segment : call.segments) json["segments"].push_back({segment.in, segment.out});
  return json;
}

Json instruction_json(const partition::Instruction& i, const mesh::DeviceMesh& mesh) {
  auto json = std::visit([&](const auto& call) { return call_json(call, mesh); }, i.what);
  json["stream"] = i.stream == partition::Stream::kComm ? "comm" : "compute";
  json["phase"] = to_string(i.phase);
  json["layer"] = i.layer;
  if (!i.waits.empty()) json["waits"] = i.waits;
  if (i.micro_batch >= 0) json["micro_batch"] = i.micro_batch;
  if (i.stage != 0) json["stage"] = i.stage;
  if (!i.reason.empty()) json["reason"] = i.reason;
  if (i.edge >= 0) json["edge"] = i.edge;
  if (i.flops != 0) json["flops"] = i.flops;
  if (i.moved_bytes != 0) json["moved_bytes"] = i.moved_bytes;
  return json;
}

Json section_json(const Section& section, const mesh::DeviceMesh& mesh) {
  auto json = Json::array();
  for (const auto& instruction : section.instructions) json.push_back(instruction_json(instruction, mesh));
  return json;
}

std::string_view output_kind(graph::GraphOutput::Kind kind) {
  switch (kind) {
    case graph::GraphOutput::Kind::kLoss:
      return "loss";
    case graph::GraphOutput::Kind::kPrediction:
      return "prediction";
    case graph::GraphOutput::Kind::kMetric:
      return "metric";
    case graph::GraphOutput::Kind::kAssign:
      return "assign";
    case graph::GraphOutput::Kind::kReport:
      return "report";
  }
  return "";
}

Json program_json(const Program& program, const mesh::DeviceMesh& mesh) {
  Json json{{"micro_batches", program.micro_batches},
            {"batch_rows", program.batch_rows},
            {"predicted_fs", program.predicted_fs},
            {"values", Json::array()},
            {"inputs", program.inputs},
            {"prefetch_offset", program.prefetch_offset},
            {"prefetch_bytes", program.prefetch_bytes},
            {"outputs", Json::array()},
            {"gradients", Json::object()}};
  for (const auto& value : program.values) json["values"].push_back(value_json(value, mesh));
  for (const auto& output : program.outputs)
    json["outputs"].push_back({{"kind", output_kind(output.kind)}, {"name", output.name}, {"value", output.value}});
  for (const auto& [path, value] : program.gradients) json["gradients"][path] = value;
  json["prologue"] = section_json(program.prologue, mesh);
  json["body"] = section_json(program.body, mesh);
  json["epilogues"] = Json::object();
  for (const auto& [name, section] : program.epilogues) json["epilogues"][name] = section_json(section, mesh);
  return json;
}

}  // namespace

std::string plan_json(const Plan& plan) {
  Json json{
      {"version", 1},
      {"mesh", {{"shape", plan.mesh.shape()}, {"axis_names", plan.mesh.axis_names()}, {"ranks", plan.mesh.ranks()}}},
      {"batch_axes", axes_json(plan.batch_axes, plan.mesh)},
      {"device", plan.device},
      {"hardware", plan.hardware},
      {"solver", plan.solver},
      {"pools", Json::object()},
      {"warnings", plan.warnings},
      {"state", Json::array()},
      {"programs", Json::object()},
      {"edges", Json::array()}};
  for (const auto pool : partition::pools_of(plan))
    json["pools"][to_string(pool)] = plan.pool_bytes[static_cast<std::size_t>(pool)];
  for (const auto& state : plan.state) json["state"].push_back(state_json(state, plan.mesh));
  for (const auto& [name, program] : plan.programs) json["programs"][name] = program_json(program, plan.mesh);
  for (const auto& edge : plan.edges) {
    Json e{{"program", edge.program},         {"from", edge.from},           {"to", edge.to},
           {"from_layout", edge.from_layout}, {"to_layout", edge.to_layout}, {"chosen", edge.chosen}};
    if (!edge.rejected.empty()) e["rejected"] = edge.rejected;
    json["edges"].push_back(std::move(e));
  }
  return json.dump(1) + "\n";
}

}  // namespace tessera::report
