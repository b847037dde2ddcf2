#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "graph/initializer.h"
#include "graph/op.h"

namespace tessera::graph {

enum class NodeKind : std::uint8_t { kInput, kVariable, kOp };

/// What a variable is for. Slots belong to a weight and take its slot layout.
enum class VariableRole : std::uint8_t {
  kWeight,    // in the model: trained, or moving if not trainable
  kSlot,      // optimizer state of a weight, same shape
  kMetric,    // f64 (2): total and count, partial over the axes that split the batch
  kGradient,  // of a weight: an input of the update graph, not storage
};

struct Variable {
  std::string path = {};  // "dense_1/kernel"; slots "adam/dense_1/kernel/momentum"
  VariableRole role = VariableRole::kWeight;
  std::string weight = {};  // path of the weight that a slot or gradient belongs to
  Initializer initializer = {};
  bool trainable = true;
  SourcePos pos = {};  // of the layer
};

/// One vertex of the global graph: an input, a variable or an op with one result. Global shapes; no mesh, no device.
struct Node {
  int id = -1;
  NodeKind kind = NodeKind::kOp;
  std::string name;   // unique: "dense_1/matmul", the input's name, the variable's path
  std::string layer;  // path of the layer that made it, with "#k" for its k-th application (k > 0)
  const Op* op = nullptr;
  std::vector<int> args;
  Attributes attributes;
  OpTraits traits;  // of an op; of a source only shape and dtype
  std::optional<Variable> variable;
  int batch_dim = -1;
  bool needs_cotangent = false;
  /// Runs once a step before the micro-batches, on the whole batch (loss denominators): reads inputs only.
  bool prologue = false;
  SourcePos pos;

  const Shape& shape() const { return traits.shape; }
  DType dtype() const { return traits.dtype; }
};

/// Nodes in topological order: an argument comes before its user.
class Graph {
 public:
  const std::vector<Node>& nodes() const { return nodes_; }
  const Node& node(int id) const { return nodes_[static_cast<std::size_t>(id)]; }

  int add_input(const std::string& name, const Shape& shape, DType dtype, int batch_dim);
  /// Trainable weights need a cotangent.
  int add_variable(Variable variable, const Shape& shape, DType dtype);
  /// Computes the traits, the batch dimension (it follows the factor; operands must agree; a batch factor that is
  /// reduced or whole without masks_rows is an error that names the layer) and needs_cotangent: an op with a backward
  /// pass and a float result, one of whose operands needs one.
  int add_op(const Op& op, const std::string& name, const std::string& layer, const std::vector<int>& args,
             const Attributes& attributes, bool prologue = false);

  Node& mutable_node(int id) { return nodes_[static_cast<std::size_t>(id)]; }

  /// Only nodes that the loss depends on keep needs_cotangent; -1: none does. After it an op without needs_cotangent
  /// hands no cotangent to its operands, whatever these need.
  void differentiate(int loss);

  /// The node of a variable or input by its name; -1 if there is none.
  int find(const std::string& name) const;

 private:
  int add(Node node);
  int batch_dim_of(const Node& node, const std::vector<TensorInfo>& operands) const;

  std::vector<Node> nodes_;
  std::map<std::string, int> by_name_;
};

/// A result that the outside reads.
///  - kLoss: an f32 scalar, the summand of one micro-batch; the step's loss is their sum.
///  - kPrediction: a layer's output, by the layer's path.
///  - kMetric: `name` is the path of a variable of role kMetric. The node's kernel reads and adds to its result, which
///    therefore *is* the memory of the variable; partial over the axes that split the rows.
///  - kAssign: the new value of the variable with the path `name`, in place.
///  - kReport: a scalar for the log.
struct GraphOutput {
  enum class Kind : std::uint8_t { kLoss, kPrediction, kMetric, kAssign, kReport };
  Kind kind = Kind::kLoss;
  std::string name;
  int node = -1;
};

/// A step's graphs. `update` is empty for evaluate and predict. Its gradients are variables of role kGradient.
struct Model {
  Graph main;
  std::vector<GraphOutput> outputs;  // of main; at most one kLoss, which is differentiated
  /// By layer, the node of main that stands for its output. A layer that changes nothing (Dropout outside of training)
  /// has the same one as its input.
  std::map<std::string, int> layer_outputs;
  Graph update;  // run when an optimizer step is due
  std::vector<GraphOutput> update_outputs;
  Graph accumulate;  // run instead while gradients are accumulated by the optimizer; empty without that
  std::vector<GraphOutput> accumulate_outputs;
};

}  // namespace tessera::graph
