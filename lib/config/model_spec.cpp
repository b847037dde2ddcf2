#include <algorithm>
#include <set>

#include "config/layer_items.h"
#include "config/sections.h"
#include "config/unfolding.h"

namespace tessera::config {
namespace {

Shape read_shape(const Node& node, const std::string& input) {
  const auto what = fmt::format("the shape of input '{}'", input);
  if (!node.is_sequence())
    fail_at(node.pos, ExitCode::kConfig, "{} must be a list of sizes without the batch, found {}", what,
            describe(node));
  Shape shape;
  for (const auto& item : node.items) {
    const auto size = item.is_null() ? 0 : item.as_int("a size in " + what);
    if (size < 1)
      fail_at(item.pos, ExitCode::kConfig, "{} must have known, positive sizes, found {}", what, describe(item));
    constexpr std::int64_t kMaxElements = std::int64_t{1} << 48;
    if (size > kMaxElements / elements(shape))
      fail_at(item.pos, ExitCode::kConfig, "{} has more than 2^48 elements", what);
    shape.push_back(size);
  }
  return shape;
}

std::vector<InputSpec> read_inputs(const Node* node, const SourcePos& pos) {
  constexpr auto kExample = "{x: {shape: [784]}}";
  if (node == nullptr) fail_at(pos, ExitCode::kConfig, "model needs 'inputs', as in {}", kExample);
  if (!node->is_map() || node->entries.empty())
    fail_at(node->pos, ExitCode::kConfig, "inputs must be a mapping from names to shapes, as in {}; found {}", kExample,
            node->is_map() ? "an empty one" : describe(*node));
  std::vector<InputSpec> inputs;
  for (const auto& entry : node->entries) {
    InputSpec input{.name = entry.key, .shape = {}, .pos = entry.pos};
    check_name(input.name, entry.pos, "an input's name");
    if (input.name == "y" || input.name == "sample_weight")
      fail_at(entry.pos, ExitCode::kConfig, "'{}' is reserved for the data; choose another name for the input",
              input.name);
    require_keys(entry.value, {"shape", "dtype"}, fmt::format("input '{}'", input.name));
    const Node* shape = entry.value.find("shape");
    if (shape == nullptr)
      fail_at(entry.pos, ExitCode::kConfig, "input '{}' needs 'shape', as in {}", input.name, kExample);
    input.shape = read_shape(*shape, input.name);
    if (const Node* dtype = entry.value.find("dtype")) {
      const auto text = dtype->as_text("dtype");
      try {
        input.dtype = parse_dtype(text);
      } catch (const Error& error) {
        fail_at(dtype->pos, ExitCode::kConfig, "{}", error.what());
      }
    }
    inputs.push_back(std::move(input));
  }
  return inputs;
}

/// Every layer and input must be read or be an output: what nobody reads is a slip of the pen.
void check_all_read(const ModelSpec& model) {
  std::set<std::string> read(model.outputs.begin(), model.outputs.end());
  for (const auto& layer : model.layers) read.insert(layer.inputs.begin(), layer.inputs.end());
  for (const auto& input : model.inputs)
    if (!read.contains(input.name)) fail_at(input.pos, ExitCode::kConfig, "no layer reads the input '{}'", input.name);
  for (const auto& layer : model.layers)
    if (!read.contains(layer.name))
      fail_at(layer.pos, ExitCode::kConfig,
              "no layer reads '{}' and it is no output; remove it or list it in `outputs`", layer.name);
}

Node resolved_node(const ModelSpec& model, const std::vector<Item>& items) {
  Node node;
  add_entry(node, "name", text_node(model.name));
  Node inputs;
  for (const auto& input : model.inputs) {
    Node shape;
    shape.kind = Node::Kind::kSequence;
    for (const auto size : input.shape) shape.items.push_back(int_node(size));
    Node arguments;
    add_entry(arguments, "shape", std::move(shape));
    add_entry(arguments, "dtype", text_node(to_string(input.dtype)));
    add_entry(inputs, input.name, std::move(arguments));
  }
  add_entry(node, "inputs", std::move(inputs));
  add_entry(node, "layers", items_node(items));
  Node outputs;
  outputs.kind = Node::Kind::kSequence;
  for (const auto& name : model.outputs) outputs.items.push_back(text_node(name));
  add_entry(node, "outputs", std::move(outputs));
  if (!model.load_weights.empty()) add_entry(node, "load_weights", text_node(model.load_weights));
  return node;
}

}  // namespace

Section<ModelSpec> read_model(const Node& node, const std::string& folder) {
  require_section_keys(node, "model");
  ModelSpec model;
  model.pos = node.pos;
  model.name = "model";
  if (const Node* name = node.find("name")) model.name = checked_name(*name, "the model's name");
  model.inputs = read_inputs(node.find("inputs"), node.pos);
  const auto items = read_items(node.find("layers"), node.pos, "model");

  Unfolding unfolding(model);
  const auto last = unfolding.unfold_model(items);
  if (const Node* outputs = node.find("outputs")) {
    for (const auto& name : read_names(*outputs, "outputs")) {
      const auto layer = unfolding.look_up(name, "");
      const bool is_input =
          std::any_of(model.inputs.begin(), model.inputs.end(), [&](const auto& input) { return input.name == layer; });
      if (is_input) fail_at(name.pos, ExitCode::kConfig, "the output '{}' is an input; an output is a layer", layer);
      if (std::find(model.outputs.begin(), model.outputs.end(), layer) != model.outputs.end())
        fail_at(name.pos, ExitCode::kConfig, "the output '{}' is given twice", layer);
      model.outputs.push_back(layer);
    }
  } else {
    model.outputs = {last};
  }
  check_all_read(model);

  if (const Node* weights = node.find("load_weights"); weights != nullptr && !weights->is_null()) {
    model.load_weights = absolute_path(*weights, "load_weights", folder);
    model.load_weights_pos = weights->pos;
  }
  auto resolved = resolved_node(model, items);
  return {std::move(model), std::move(resolved)};
}

}  // namespace tessera::config
