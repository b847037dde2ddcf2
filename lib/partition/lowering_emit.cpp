#include "partition/lowering_emit.h"

namespace tessera::partition {

LoweringEmit::LoweringEmit(ProgramBuilder& builder, const Assignment& assignment, int solver_node,
                           const graph::Node& node, const Strategy& strategy, std::vector<int> operands)
    : builder_(builder),
      assignment_(assignment),
      solver_node_(solver_node),
      node_(node),
      strategy_(strategy),
      operands_(std::move(operands)) {}

void LoweringEmit::set_backward(int cotangent, int result, std::map<std::string, int> saved) {
  cotangent_ = cotangent;
  result_ = result;
  saved_ = std::move(saved);
}

void LoweringEmit::want_cotangent(int k, bool of_variable, bool accumulate) {
  const auto& of = assignment_.graph->node(
      assignment_
          .nodes[static_cast<std::size_t>(
              assignment_.nodes[static_cast<std::size_t>(solver_node_)].args[static_cast<std::size_t>(k)])]
          .graph_node);
  const int value =
      builder_.add_value((of_variable ? "grad " : "d ") + of.name, of.shape(), of_variable ? DType::kF32 : of.dtype(),
                         assignment_.cotangent_layout(solver_node_, k));
  cotangents_[k] = {value, accumulate};
}

std::map<std::string, int> LoweringEmit::take_saved() const {
  auto saved = saved_;
  for (auto& [name, value] : saved) value = current(value);
  return saved;
}

graph::Value LoweringEmit::input(int k) {
  const int value = operands_[static_cast<std::size_t>(k)];
  TESSERA_CHECK(value >= 0, "{} reads operand {}, which its traits don't save", node_.name, k);
  return {current(value)};
}

graph::Value LoweringEmit::result() {
  if (result_ < 0)
    result_ = builder_.add_value(node_.name, node_.shape(), node_.dtype(), assignment_.result_layout(solver_node_));
  return {current(result_)};
}

graph::Value LoweringEmit::cotangent_of(int k) {
  const auto it = cotangents_.find(k);
  TESSERA_CHECK(it != cotangents_.end(), "nobody wants the cotangent of operand {} of {}", k, node_.name);
  return {current(it->second.value)};
}

bool LoweringEmit::accumulate(int k) const {
  const auto it = cotangents_.find(k);
  return it != cotangents_.end() && it->second.accumulate;
}

graph::Value LoweringEmit::temp(const std::string& name, const std::string& factors, DType dtype, const Shape& extra) {
  Shape shape;
  mesh::Layout layout;
  const auto order = assignment_.nodes[static_cast<std::size_t>(solver_node_)].order == Order::kActivation
                         ? assignment_.activation_order
                         : assignment_.variable_order;
  for (const char f : factors) {
    shape.push_back(node_.traits.rule.sizes.at(f));
    layout.dims.emplace_back();
    for (const auto a : order)
      if (strategy_.factor[static_cast<std::size_t>(a)] == f) layout.dims.back().push_back(a);
  }
  for (const auto n : extra) {
    shape.push_back(n);
    layout.dims.emplace_back();
  }
  return {builder_.add_value(node_.name + " " + name, shape, dtype, layout)};
}

graph::Value LoweringEmit::saved(const std::string& name) {
  const auto it = saved_.find(name);
  TESSERA_CHECK(it != saved_.end(), "{} has saved nothing named {}", node_.name, name);
  return {current(it->second)};
}

void LoweringEmit::kernel(const std::string& name, const std::vector<graph::Value>& inputs,
                          const std::vector<graph::Value>& outputs, const Attributes& attributes) {
  std::vector<int> in, out;
  for (const auto v : inputs) in.push_back(current(v.id));
  for (const auto v : outputs) out.push_back(current(v.id));
  auto& i = builder_.kernel(name, in, out, attributes);
  if (name == "matmul")  // a has m k elements, y (m, n)
    i.flops = 2 * elements(builder_.value(in[0]).local) * builder_.value(out[0]).local.back();
}

void LoweringEmit::all_reduce(graph::Value value, const std::string& over, graph::ReduceKind kind) {
  const auto axes = axes_of(over);
  if (axes.empty()) return;
  const int id = current(value.id);
  const int out = builder_.all_reduce(id, axes, kind, builder_.value(id).layout,
                                      fmt::format("{}: factor {} is split", node_.name, over));
  if (out != value.id) reduced_[value.id] = out;
}

std::vector<mesh::Axis> LoweringEmit::axes_of(const std::string& factors) const {
  std::vector<mesh::Axis> axes;
  for (int a = 0; a < builder_.mesh().axis_count(); ++a) {
    const char f = strategy_.factor[static_cast<std::size_t>(a)];
    if (f != 0 && factors.find(f) != std::string::npos) axes.push_back(a);
  }
  return axes;
}

int LoweringEmit::current(int value) const {
  for (auto it = reduced_.find(value); it != reduced_.end(); it = reduced_.find(value)) value = it->second;
  return value;
}

}  // namespace tessera::partition
