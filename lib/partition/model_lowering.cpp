#include "partition/model_lowering.h"

#include <algorithm>
#include <utility>

#include "partition/graph_lowering.h"

namespace tessera::partition {
namespace {

using Kind = graph::GraphOutput::Kind;

int copy_of(ProgramBuilder& builder, const std::string& name, int value) {
  const auto v = builder.value(value);
  const int copy = builder.add_value(name, v.shape, v.dtype, v.layout);
  builder.kernel("copy", {value}, {copy});
  return copy;
}

/// In place, where the value is partial.
int sum_of_ranks(ProgramBuilder& builder, const std::string& name, int value) {
  auto whole = builder.value(value).layout;
  const auto axes = std::exchange(whole.partial, {});
  if (axes.empty()) return value;
  return builder.all_reduce(value, axes, graph::ReduceKind::kSum, whole, name + " of all ranks");
}

class ModelLowering {
 public:
  ModelLowering(Plan& plan, const std::string& name, const graph::Model& model,
                const std::map<std::string, SolverInput>& inputs, const std::map<std::string, Assignment>& assignments,
                const ModelLoweringOptions& options)
      : plan_(plan),
        name_(name),
        model_(model),
        inputs_(inputs),
        assignments_(assignments),
        options_(options),
        program_(plan.programs[name]),
        builder_(plan, program_) {}

  void run() {
    program_.name = name_;
    program_.micro_batches = options_.micro_batches;
    program_.predicted_fs = assignments_.at(name_).time_fs * options_.micro_batches;
    GraphLowering main(
        builder_, inputs_.at(name_), assignments_.at(name_),
        {.micro_batches = options_.micro_batches, .reduce_every_micro_batch = options_.reduce_every_micro_batch});
    place_metrics(main);
    bind_sources(main);
    main.forward(&program_.prologue, &program_.body);
    Section after;  // once all micro-batches are through
    auto& end = several() ? after : program_.body;
    take_outputs(main, end);
    if (name_ == "train") train(main, end);
    add_metrics_program();
  }

 private:
  bool several() const { return options_.micro_batches > 1; }

  /// A metric's kernel adds to its state: a rank's own sum over the axes that split the rows. Before the state's value
  /// is made.
  void place_metrics(GraphLowering& main) {
    for (const auto& output : model_.outputs) {
      if (output.kind != Kind::kMetric) continue;
      for (auto& s : plan_.state)
        if (s.variable.path == output.name) s.layout = main.result_layout(output.node);
      main.place_result(output.node, builder_.state_value(output.name));
    }
  }

  /// Inputs lie in the staging pool, a micro-batch's part after the other; the body sees the part in hand.
  void bind_sources(GraphLowering& main) {
    for (const auto& node : model_.main.nodes()) {
      if (node.kind == graph::NodeKind::kVariable) main.bind(node.id, builder_.state_value(node.name));
      if (node.kind != graph::NodeKind::kInput) continue;
      const auto layout = main.result_layout(node.id);
      auto whole_shape = node.shape();
      whole_shape.insert(whole_shape.begin(), options_.micro_batches);
      auto whole_layout = layout;
      whole_layout.dims.insert(whole_layout.dims.begin(), std::vector<mesh::Axis>{});
      const int whole = builder_.add_value(node.name, whole_shape, node.dtype(), whole_layout, Pool::kStaging);
      const int part = builder_.add_view(whole, node.name, node.shape(), node.dtype(), layout);
      builder_.value(part).micro_stride = several() ? builder_.value(part).bytes : 0;
      program_.inputs.push_back(whole);
      program_.batch_rows = std::max(program_.batch_rows, node.shape().empty() ? 1 : node.shape()[0]);
      main.bind(node.id, part);
    }
    program_.batch_rows *= options_.micro_batches;
  }

  /// The loss is summed over the micro-batches and all ranks; predictions are no longer partial.
  void take_outputs(const GraphLowering& main, Section& end) {
    for (const auto& output : model_.outputs) {
      if (output.kind == Kind::kMetric || (output.kind == Kind::kPrediction && name_ != "predict")) continue;
      builder_.place = {&program_.body, Phase::kForward, model_.main.node(output.node).layer, -1};
      int value = main.result(output.node);
      if (several()) value = sum_of_micro_batches(output.name, value);
      const bool is_partial = !builder_.value(value).layout.partial.empty();
      builder_.place.section = &end;
      // The graph may still read the local sum.
      if (is_partial && !several()) value = copy_of(builder_, output.name, value);
      program_.outputs.push_back({output.kind, output.name, sum_of_ranks(builder_, output.name, value)});
    }
  }

  int sum_of_micro_batches(const std::string& name, int value) {
    const auto v = builder_.value(value);
    const int sum = builder_.add_value(name, v.shape, v.dtype, v.layout);
    builder_.place.section = &program_.prologue;
    builder_.kernel("fill", {}, {sum}, {{"value", 0.0}});
    builder_.place.section = &program_.body;
    builder_.kernel("add_n", {sum, value}, {sum});
    return sum;
  }

  /// The backward pass, and the optimizer's update.
  void train(GraphLowering& main, Section& end) {
    const auto loss = std::find_if(model_.outputs.begin(), model_.outputs.end(),
                                   [](const graph::GraphOutput& o) { return o.kind == Kind::kLoss; });
    TESSERA_CHECK(loss != model_.outputs.end(), "a training graph without a loss");
    main.backward(loss->node, &program_.prologue, &program_.body, &end);
    for (const auto& [node, value] : main.gradients()) program_.gradients[model_.main.node(node).name] = value;
    const bool accumulates = !model_.accumulate.nodes().empty();
    if (several()) {
      program_.epilogues["apply"] = end;
      if (accumulates) program_.epilogues["accumulate"] = end;
    }
    lower_update("apply", model_.update, model_.update_outputs);
    if (accumulates) lower_update("accumulate", model_.accumulate, model_.accumulate_outputs);
  }

  void lower_update(const std::string& epilogue, const graph::Graph& graph,
                    const std::vector<graph::GraphOutput>& outputs) {
    auto& section = program_.epilogues[epilogue];
    if (graph.nodes().empty()) return;
    const auto suffix = "/" + epilogue;
    GraphLowering update(builder_, inputs_.at(name_ + suffix), assignments_.at(name_ + suffix),
                         {.phase = Phase::kUpdate, .suffix = suffix});
    for (const auto& node : graph.nodes()) {
      if (node.kind != graph::NodeKind::kVariable) continue;
      const bool gradient = node.variable->role == graph::VariableRole::kGradient;
      update.bind(node.id, gradient ? program_.gradients.at(node.variable->weight) : builder_.state_value(node.name));
    }
    for (const auto& output : outputs)
      if (output.kind == Kind::kAssign) update.place_result(output.node, builder_.state_value(output.name));
    update.forward(&section, &section);
    for (const auto& output : outputs) {
      builder_.place = {&section, Phase::kUpdate, graph.node(output.node).layer, -1};
      const int value = update.result(output.node);
      output.kind == Kind::kAssign ? assign(output, value) : report(output, value);
    }
  }

  /// Carries an updated weight from its slots' layout to its own.
  void assign(const graph::GraphOutput& output, int value) {
    const int state = builder_.state_value(output.name);
    if (value == state) return;
    const auto moves =
        reshard(builder_.mesh(), builder_.value(value).layout, builder_.value(state).layout, false, false);
    TESSERA_CHECK(moves.has_value(), "the update of {} can't reach its layout", output.name);
    value = builder_.apply(value, *moves, "the updated " + output.name);
    builder_.kernel("copy", {value}, {state});
  }

  void report(const graph::GraphOutput& output, int value) {
    value = sum_of_ranks(builder_, output.name, value);
    auto& outputs = program_.outputs;
    const auto known =
        std::find_if(outputs.begin(), outputs.end(), [&](const ProgramOutput& o) { return o.name == output.name; });
    if (known == outputs.end()) {
      outputs.push_back({output.kind, output.name, value});
    } else if (known->value != value) {  // both epilogues hand out one value
      builder_.kernel("copy", {value}, {known->value});
    }
  }

  /// Metric states are sums of a rank's own rows; this program hands out the sums of all.
  void add_metrics_program() {
    const auto is_metric = [](const graph::GraphOutput& o) { return o.kind == Kind::kMetric; };
    if (std::none_of(model_.outputs.begin(), model_.outputs.end(), is_metric)) return;
    const auto key = name_ + ".metrics";
    auto& program = plan_.programs[key];
    program.name = key;
    ProgramBuilder builder(plan_, program);
    builder.place = {&program.body, Phase::kForward, "metrics", -1};
    for (const auto& output : model_.outputs) {
      if (!is_metric(output)) continue;
      const int copy = copy_of(builder, output.name, builder.state_value(output.name));
      program.outputs.push_back({output.kind, output.name, sum_of_ranks(builder, output.name, copy)});
    }
  }

  Plan& plan_;
  const std::string& name_;
  const graph::Model& model_;
  const std::map<std::string, SolverInput>& inputs_;
  const std::map<std::string, Assignment>& assignments_;
  const ModelLoweringOptions& options_;
  Program& program_;
  ProgramBuilder builder_;
};

}  // namespace

void lower_model(Plan& plan, const std::string& name, const graph::Model& model,
                 const std::map<std::string, SolverInput>& inputs, const std::map<std::string, Assignment>& assignments,
                 const ModelLoweringOptions& options) {
  ModelLowering(plan, name, model, inputs, assignments, options).run();
}

}  // namespace tessera::partition
