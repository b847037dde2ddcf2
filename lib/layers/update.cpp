#include "layers/update.h"

#include "graph/ops/ops.h"

namespace tessera::layers {
namespace {

using Kind = graph::GraphOutput::Kind;

/// One of the two graphs of the optimizer.
class UpdateGraph {
 public:
  UpdateGraph(graph::Graph& graph, std::vector<graph::GraphOutput>& outputs, const Optimizer& optimizer)
      : graph_(graph), outputs_(outputs), optimizer_(optimizer) {}

  /// A call that only adds to the accumulators.
  void accumulate(const std::vector<TrainedWeight>& weights) {
    add_gradients(weights);
    report_norm();
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const auto& path = weights[i].variable.path;
      const auto slot = add_slot(weights[i], "gradient_accumulator");
      assign(slot_path(optimizer_, path, "gradient_accumulator"),
             op(graph::kAccumulateGradient, path, {slot, gradients_[i]}));
      if (optimizer_.config.use_ema) average(weights[i], add_weight(weights[i]), true);
    }
    graph_.differentiate(-1);
  }

  /// A call that changes the weights.
  void update(const std::vector<TrainedWeight>& weights) {
    add_gradients(weights);
    if (optimizer_.accumulation_steps() > 1)
      for (std::size_t i = 0; i < weights.size(); ++i)
        gradients_[i] = op(graph::kAverageGradient, weights[i].variable.path,
                           {add_slot(weights[i], "gradient_accumulator"), gradients_[i]},
                           {{"steps", optimizer_.accumulation_steps()}});
    report_norm();
    clip(weights);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const auto& path = weights[i].variable.path;
      WeightUpdate one(graph_, optimizer_.name, path, add_weight(weights[i]), gradients_[i], optimizer_.decay_of(path));
      const int updated = optimizer_.update(one);
      if (optimizer_.config.use_ema)
        average(weights[i], updated, false);
      else
        assign(path, updated);
    }
    graph_.differentiate(-1);
  }

 private:
  int op(const graph::Op& op, const std::string& path, const std::vector<int>& args,
         const Attributes& attributes = {}) {
    return graph_.add_op(op, path + "/" + std::string(op.name), path, args, attributes);
  }

  void assign(const std::string& path, int node) { outputs_.push_back({Kind::kAssign, path, node}); }

  int add_weight(const TrainedWeight& weight) {
    return graph_.add_variable(weight.variable, weight.shape, DType::kF32);
  }

  int add_slot(const TrainedWeight& weight, const std::string& name) {
    graph::Variable slot;
    slot.path = slot_path(optimizer_, weight.variable.path, name);
    slot.role = graph::VariableRole::kSlot;
    slot.weight = weight.variable.path;
    slot.trainable = false;
    slot.pos = weight.variable.pos;
    return graph_.add_variable(std::move(slot), weight.shape, DType::kF32);
  }

  void add_gradients(const std::vector<TrainedWeight>& weights) {
    for (const auto& weight : weights) {
      graph::Variable gradient;
      gradient.path = "grad:" + weight.variable.path;
      gradient.role = graph::VariableRole::kGradient;
      gradient.weight = weight.variable.path;
      gradient.trainable = false;
      gradient.pos = weight.variable.pos;
      gradients_.push_back(graph_.add_variable(std::move(gradient), weight.shape, DType::kF32));
      paths_.push_back(weight.variable.path);
    }
  }

  /// Squares of the reduced gradients, so a replica counts once: each sum is partial over the axes that split its
  /// gradient.
  void report_norm() {
    for (std::size_t i = 0; i < gradients_.size(); ++i)
      squares_.push_back(op(graph::kSumSquares, paths_[i], {gradients_[i]}));
    if (squares_.empty()) return;
    total_ = squares_.size() == 1 ? squares_[0] : op(graph::kAdd, "grad_norm_squared", squares_);
    outputs_.push_back({Kind::kReport, "grad_norm_squared", total_});
  }

  void clip(const std::vector<TrainedWeight>& weights) {
    const auto& c = optimizer_.config;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const auto& path = paths_[i];
      if (c.clipvalue) gradients_[i] = op(graph::kClipByValue, path, {gradients_[i]}, {{"limit", *c.clipvalue}});
      if (c.clipnorm)
        gradients_[i] =
            op(graph::kClipByNorm, path, {gradients_[i], squares_[i]}, {{"norm", *c.clipnorm}, {"global", false}});
      if (c.global_clipnorm)
        gradients_[i] =
            op(graph::kClipByNorm, path, {gradients_[i], total_}, {{"norm", *c.global_clipnorm}, {"global", true}});
    }
  }

  /// The average of the weight as it is after this call; every k-th update it also becomes the weight.
  void average(const TrainedWeight& weight, int value, bool unchanged) {
    const auto& path = weight.variable.path;
    const int mean = op(graph::kEmaUpdate, path, {add_slot(weight, "average"), value},
                        {{"momentum", optimizer_.config.ema_momentum}});
    assign(slot_path(optimizer_, path, "average"), mean);
    if (const auto frequency = optimizer_.config.ema_overwrite_frequency)
      assign(path, op(graph::kEmaOverwrite, path, {value, mean}, {{"frequency", *frequency}}));
    else if (!unchanged)
      assign(path, value);
  }

  graph::Graph& graph_;
  std::vector<graph::GraphOutput>& outputs_;
  const Optimizer& optimizer_;
  std::vector<int> gradients_, squares_;
  std::vector<std::string> paths_;
  int total_ = -1;
};

}  // namespace

int WeightUpdate::slot(const std::string& name) {
  graph::Variable slot;
  slot.path = optimizer_ + "/" + path_ + "/" + name;
  slot.role = graph::VariableRole::kSlot;
  slot.weight = path_;
  slot.trainable = false;
  slot.pos = graph_.node(weight_).pos;
  return graph_.add_variable(std::move(slot), graph_.node(weight_).shape(), DType::kF32);
}

int WeightUpdate::apply(const graph::Op& op, const std::vector<int>& slots, Attributes attributes) {
  std::vector<int> args{weight_, gradient_};
  args.insert(args.end(), slots.begin(), slots.end());
  attributes.set("weight_decay", decay_);
  return graph_.add_op(op, path_ + "/" + std::string(op.name), path_, args, attributes);
}

std::string slot_path(const Optimizer& optimizer, const std::string& weight, const std::string& slot) {
  return optimizer.name + "/" + weight + "/" + slot;
}

std::vector<TrainedWeight> trained_weights(const graph::Graph& main) {
  std::vector<TrainedWeight> weights;
  for (const auto& node : main.nodes())
    if (node.variable && node.variable->role == graph::VariableRole::kWeight && node.needs_cotangent)
      weights.push_back({*node.variable, node.shape()});
  return weights;
}

void build_update(graph::Model& model, const Optimizer& optimizer, const std::vector<TrainedWeight>& weights) {
  UpdateGraph(model.update, model.update_outputs, optimizer).update(weights);
  if (optimizer.accumulation_steps() > 1)
    UpdateGraph(model.accumulate, model.accumulate_outputs, optimizer).accumulate(weights);
}

}  // namespace tessera::layers
