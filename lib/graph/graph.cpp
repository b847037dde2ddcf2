#include "graph/graph.h"

#include <algorithm>

namespace tessera::graph {
namespace {

bool has(const std::string& letters, char f) { return letters.find(f) != std::string::npos; }

/// The factor that counts samples in a dimension: the first one that is not 1.
char batch_factor_of(const DimFactors& dim, const Rule& rule) {
  for (const char f : dim)
    if (rule.sizes.at(f) > 1) return f;
  return dim.front();
}

}  // namespace

int Graph::add_input(const std::string& name, const Shape& shape, DType dtype, int batch_dim) {
  Node node;
  node.kind = NodeKind::kInput;
  node.name = name;
  node.traits.shape = shape;
  node.traits.dtype = dtype;
  node.batch_dim = batch_dim;
  return add(std::move(node));
}

int Graph::add_variable(Variable variable, const Shape& shape, DType dtype) {
  Node node;
  node.kind = NodeKind::kVariable;
  node.name = variable.path;
  node.traits.shape = shape;
  node.traits.dtype = dtype;
  node.needs_cotangent = variable.role == VariableRole::kWeight && variable.trainable;
  node.pos = variable.pos;
  node.variable = std::move(variable);
  return add(std::move(node));
}

int Graph::add_op(const Op& op, const std::string& name, const std::string& layer, const std::vector<int>& args,
                  const Attributes& attributes, bool prologue) {
  Node node;
  node.name = name;
  node.layer = layer;
  node.op = &op;
  node.args = args;
  node.attributes = attributes;
  node.prologue = prologue;

  std::vector<TensorInfo> operands;
  for (const int arg : args) {
    const Node& source = this->node(arg);
    TESSERA_CHECK(!prologue || source.kind == NodeKind::kInput || source.prologue,
                  "{} of the prologue reads {}, which is no input", name, source.name);
    operands.push_back({source.shape(), source.dtype(), source.batch_dim});
    node.needs_cotangent |= source.needs_cotangent;
  }
  node.traits = op.traits(attributes, operands);
  node.needs_cotangent = node.needs_cotangent && op.backward != nullptr && is_float(node.dtype());
  node.batch_dim = batch_dim_of(node, operands);
  return add(std::move(node));
}

int Graph::batch_dim_of(const Node& node, const std::vector<TensorInfo>& operands) const {
  const Rule& rule = node.traits.rule;
  char batch = 0;
  for (std::size_t k = 0; k < operands.size(); ++k) {
    if (operands[k].batch_dim < 0) continue;
    const char f = batch_factor_of(rule.operands[k][static_cast<std::size_t>(operands[k].batch_dim)], rule);
    if (batch != 0 && f != batch)
      fail(ExitCode::kConfig, "{}: the batch dimensions of its inputs do not agree", node.layer);
    batch = f;
  }
  if (batch == 0) return -1;
  for (std::size_t d = 0; d < rule.result.size(); ++d)
    if (has(rule.result[d], batch) && !has(rule.composite, batch) && !has(rule.whole, batch))
      return static_cast<int>(d);
  if (!node.traits.masks_rows)
    fail(ExitCode::kConfig,
         "{}: '{}' works across the samples of the batch but takes no row mask, so that padded rows "
         "would count; use a dimension that is not the batch",
         node.layer, node.op->name);
  return -1;
}

int Graph::find(const std::string& name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? -1 : it->second;
}

void Graph::differentiate(int loss) {
  std::vector<bool> reached(nodes_.size());
  if (loss >= 0) reached[static_cast<std::size_t>(loss)] = true;
  for (std::size_t i = nodes_.size(); i-- > 0;) {
    nodes_[i].needs_cotangent = nodes_[i].needs_cotangent && reached[i];
    if (nodes_[i].needs_cotangent)
      for (const int arg : nodes_[i].args) reached[static_cast<std::size_t>(arg)] = true;
  }
}

int Graph::add(Node node) {
  node.id = static_cast<int>(nodes_.size());
  TESSERA_CHECK(by_name_.emplace(node.name, node.id).second, "two nodes are named '{}'", node.name);
  nodes_.push_back(std::move(node));
  return nodes_.back().id;
}

}  // namespace tessera::graph
