#include "report/plan_tables.h"

#include <ostream>
#include <utility>

#include <fmt/format.h>

#include "core/text.h"
#include "partition/plan.h"
#include "report/table.h"

namespace tessera::report {

using partition::CollectiveCall;
using partition::Plan;
using partition::Program;
using partition::Section;

namespace {

std::string bytes_text(std::int64_t bytes) { return human_bytes(static_cast<double>(bytes)); }

std::string axes_text(const std::vector<mesh::Axis>& axes, const mesh::DeviceMesh& mesh) {
  std::vector<std::string> names;
  for (const auto axis : axes) names.push_back(mesh.axis_names()[static_cast<std::size_t>(axis)]);
  return join(names, "+");
}

std::string layout_text(const mesh::Layout& layout, const mesh::DeviceMesh& mesh) {
  return layout.dims.empty() ? "" : to_string(layout, mesh);
}

void write_state(std::ostream& to, const Plan& plan) {
  Table table({"state", "shape", "layout", "a rank", "bytes a rank"});
  std::int64_t slots = 0, slot_bytes = 0;
  for (const auto& s : plan.state) {
    if (s.variable.role != graph::VariableRole::kWeight) {
      ++slots;
      slot_bytes += s.bytes;
      continue;
    }
    table.add({s.variable.path, to_string(s.shape), layout_text(s.layout, plan.mesh), to_string(s.local),
               bytes_text(s.bytes)});
  }
  table.add({fmt::format("{} of the optimizer and metrics", slots), "", "", "", bytes_text(slot_bytes)});
  table.write(to);
}

std::string shape_of(const Program& program, const CollectiveCall& call) {
  const auto& first = program.values[static_cast<std::size_t>(call.segments[0].in)];
  auto text = to_string(first.shape);
  if (call.segments.size() > 1) text += fmt::format(" and {} more", call.segments.size() - 1);
  return text;
}

std::vector<std::pair<std::string, const Section*>> sections_of(const Program& program) {
  std::vector<std::pair<std::string, const Section*>> sections{{"prologue", &program.prologue},
                                                               {"body", &program.body}};
  for (const auto& [name, section] : program.epilogues) sections.emplace_back(name, &section);
  return sections;
}

void write_program(std::ostream& to, const Plan& plan, const Program& program) {
  std::size_t kernels = 0;
  Table table({"collective", "phase", "kind", "axes", "tensor", "bytes a rank", "layer", "reason"});
  for (const auto& [name, section] : sections_of(program)) {
    for (std::size_t k = 0; k < section->instructions.size(); ++k) {
      const auto& instruction = section->instructions[k];
      const auto* call = std::get_if<CollectiveCall>(&instruction.what);
      if (!call) {
        ++kernels;
        continue;
      }
      table.add({fmt::format("{} {}", name, k), to_string(instruction.phase), to_string(call->kind),
                 axes_text(call->axes, plan.mesh), shape_of(program, *call), bytes_text(instruction.moved_bytes),
                 instruction.layer, instruction.reason});
    }
  }
  to << fmt::format("\n{}: {} rows", program.name, program.batch_rows);
  if (program.micro_batches > 1) to << fmt::format(" in {} micro-batches", program.micro_batches);
  to << fmt::format(", {} kernels", kernels);
  if (program.predicted_fs > 0)
    to << fmt::format(", predicted {:.3g} ms", static_cast<double>(program.predicted_fs) * 1e-12);
  to << (table.empty() ? ", no communication\n" : "\n");
  if (!table.empty()) table.write(to);
}

void write_memory(std::ostream& to, const Plan& plan) {
  Table table({"memory a rank", "bytes"});
  std::int64_t sum = 0;
  for (const auto pool : partition::pools_of(plan)) {
    const auto bytes = plan.pool_bytes[static_cast<std::size_t>(pool)];
    table.add({to_string(pool), bytes_text(bytes)});
    sum += bytes;
  }
  table.add({"sum", bytes_text(sum)});
  to << '\n';
  table.write(to);
}

void write_edges(std::ostream& to, const Plan& plan) {
  if (plan.edges.empty()) return;
  to << "\nwhy something moves\n";
  for (const auto& edge : plan.edges) {
    to << fmt::format("  {}: {} -> {}  {} -> {}\n      chosen: {}\n", edge.program, edge.from, edge.to,
                      edge.from_layout, edge.to_layout, edge.chosen);
    if (!edge.rejected.empty()) to << fmt::format("      rejected: {}\n", edge.rejected);
  }
}

}  // namespace

void write_tables(std::ostream& to, const Plan& plan, bool explain) {
  const auto batch =
      plan.batch_axes.empty() ? std::string("not split") : "split over " + axes_text(plan.batch_axes, plan.mesh);
  to << fmt::format("mesh {}, batch {}, device {}, hardware profile {}, solved {}\n\n", to_string(plan.mesh), batch,
                    plan.device, plan.hardware, plan.solver);
  write_state(to, plan);
  for (const auto& [name, program] : plan.programs) write_program(to, plan, program);
  write_memory(to, plan);
  if (explain) write_edges(to, plan);
  for (const auto& warning : plan.warnings) to << "warning: " << warning << '\n';
}

}  // namespace tessera::report
