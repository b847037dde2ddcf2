#include "config/sections.h"

namespace tessera::config {
namespace {

std::vector<std::string> read_texts(const Node& node, const std::string& what) {
  if (!node.is_sequence()) fail_at(node.pos, ExitCode::kConfig, "{} must be a list, found {}", what, describe(node));
  std::vector<std::string> texts;
  for (const auto& item : node.items) texts.push_back(item.as_text("an entry of " + what));
  return texts;
}

void read_mesh(const Node& node, DistributionSpec& spec) {
  require_keys(node, {"shape", "axis_names"}, "mesh");
  const Node* shape = node.find("shape");
  const Node* names = node.find("axis_names");
  if (shape == nullptr || names == nullptr)
    fail_at(node.pos, ExitCode::kConfig, "mesh needs '{}', as in {{shape: [2, -1], axis_names: [batch, model]}}",
            shape == nullptr ? "shape" : "axis_names");
  if (!shape->is_sequence())
    fail_at(shape->pos, ExitCode::kConfig, "mesh shape must be a list of sizes, found {}", describe(*shape));
  for (const auto& size : shape->items) spec.mesh_shape.push_back(size.as_int("a size of the mesh"));
  spec.axis_names = read_texts(*names, "axis_names");
  spec.has_mesh = true;
  spec.mesh_pos = node.pos;
}

AxisNames read_axes(const Node& node, const std::string& key) {
  const auto what = fmt::format("a dimension in the layout of '{}'", key);
  if (node.is_null()) return {};
  if (node.is_sequence()) return read_texts(node, what);
  if (!node.is_scalar())
    fail_at(node.pos, ExitCode::kConfig, "{} must be null, an axis or a list of axes, found {}", what, describe(node));
  const auto axis = node.as_text(what);
  if (axis == "None") fail_at(node.pos, ExitCode::kConfig, "{} is 'None'; YAML's word for it is null", what);
  return {axis};
}

LayoutSpec read_layout(const Node::Entry& entry) {
  LayoutSpec layout;
  layout.key = entry.key;
  layout.key_pos = entry.pos;
  if (layout.key.empty()) fail_at(entry.pos, ExitCode::kConfig, "a layout needs a name or pattern, found ''");
  const Node* dims = &entry.value;
  if (dims->is_map()) {
    const auto what = fmt::format("the rule '{}'", entry.key);
    require_keys(*dims, {"layout", "if_indivisible"}, what);
    if (const Node* action = dims->find("if_indivisible")) {
      const auto text = action->as_text("if_indivisible");
      if (text != "replicate" && text != "error")
        fail_at(action->pos, ExitCode::kConfig, "if_indivisible must be replicate or error, found '{}'", text);
      layout.replicate_if_indivisible = text == "replicate";
    }
    const Node* inner = dims->find("layout");
    if (inner == nullptr)
      fail_at(dims->pos, ExitCode::kConfig, "{} needs 'layout', as in {{layout: [null, model]}}", what);
    dims = inner;
  }
  layout.pos = dims->pos;
  if (!dims->is_sequence())
    fail_at(dims->pos, ExitCode::kConfig,
            "the layout of '{}' must be a list with one entry for each dimension, as in [null, model]; found {}",
            entry.key, describe(*dims));
  for (const auto& dim : dims->items) layout.dims.push_back(read_axes(dim, entry.key));
  return layout;
}

std::vector<LayoutSpec> read_layouts(const Node* node, const std::string& what) {
  std::vector<LayoutSpec> layouts;
  if (node == nullptr || node->is_null()) return layouts;
  if (!node->is_map())
    fail_at(node->pos, ExitCode::kConfig, "{} must be a mapping from names to layouts, found {}", what,
            describe(*node));
  for (const auto& entry : node->entries) layouts.push_back(read_layout(entry));
  return layouts;
}

void read_batch_dim_name(const Node& node, DistributionSpec& spec) {
  spec.has_batch_dim_name = true;
  spec.batch_dim_name_pos = node.pos;
  if (node.is_null()) return;
  if (node.is_sequence()) {
    spec.batch_dim_names = read_texts(node, "batch_dim_name");
  } else {
    spec.batch_dim_names = {node.as_text("batch_dim_name")};
  }
}

void read_data_parallel(const Node& node, DistributionSpec& spec) {
  spec.strategy = DistributionSpec::Strategy::kDataParallel;
  if (node.is_null()) return;
  require_keys(node, {"mesh"}, "DataParallel");
  if (const Node* mesh = node.find("mesh")) read_mesh(*mesh, spec);
}

void read_model_parallel(const Node& node, const SourcePos& pos, DistributionSpec& spec) {
  constexpr auto kShape = "ModelParallel: {mesh: {shape: [2, 4], axis_names: [batch, model]}, layout_map: {...}}";
  spec.strategy = DistributionSpec::Strategy::kModelParallel;
  if (!node.is_null()) require_section_keys(node, "ModelParallel");
  for (const auto* key : {"mesh", "layout_map"})
    if (node.find(key) == nullptr) fail_at(pos, ExitCode::kConfig, "ModelParallel needs '{}', as in {}", key, kShape);
  read_mesh(*node.find("mesh"), spec);
  if (const Node* name = node.find("batch_dim_name")) read_batch_dim_name(*name, spec);
  spec.layout_map = read_layouts(node.find("layout_map"), "layout_map");
  spec.output_layout_map = read_layouts(node.find("output_layout_map"), "output_layout_map");
  spec.data_layout_map = read_layouts(node.find("data_layout_map"), "data_layout_map");
  if (const Node* unmatched = node.find("unmatched_rules")) {
    const auto text = unmatched->as_text("unmatched_rules");
    if (text != "error" && text != "warn")
      fail_at(unmatched->pos, ExitCode::kConfig, "unmatched_rules must be error or warn, found '{}'", text);
    spec.unmatched_rules_warn = text == "warn";
  }
}

Node list_node() {
  Node list;
  list.kind = Node::Kind::kSequence;
  return list;
}

Node map_node() {
  Node map;
  map.kind = Node::Kind::kMap;
  return map;
}

Node texts_node(const std::vector<std::string>& texts) {
  auto list = list_node();
  for (const auto& text : texts) list.items.push_back(text_node(text));
  return list;
}

Node layouts_node(const std::vector<LayoutSpec>& layouts) {
  auto map = map_node();
  for (const auto& layout : layouts) {
    auto dims = list_node();
    for (const auto& axes : layout.dims)
      dims.items.push_back(axes.empty() ? Node{} : axes.size() == 1 ? text_node(axes.front()) : texts_node(axes));
    if (layout.replicate_if_indivisible) {
      auto rule = map_node();
      add_entry(rule, "layout", std::move(dims));
      add_entry(rule, "if_indivisible", text_node("replicate"));
      dims = std::move(rule);
    }
    add_entry(map, layout.key, std::move(dims));
  }
  return map;
}

Node resolved_node(const DistributionSpec& spec) {
  auto strategy = map_node();
  if (spec.has_mesh) {
    auto shape = list_node();
    for (const auto size : spec.mesh_shape) shape.items.push_back(int_node(size));
    auto mesh = map_node();
    add_entry(mesh, "shape", std::move(shape));
    add_entry(mesh, "axis_names", texts_node(spec.axis_names));
    add_entry(strategy, "mesh", std::move(mesh));
  }
  const bool is_model_parallel = spec.strategy == DistributionSpec::Strategy::kModelParallel;
  if (is_model_parallel) {
    if (spec.has_batch_dim_name)
      add_entry(strategy, "batch_dim_name", spec.batch_dim_names.empty() ? Node{} : texts_node(spec.batch_dim_names));
    add_entry(strategy, "layout_map", layouts_node(spec.layout_map));
    add_entry(strategy, "output_layout_map", layouts_node(spec.output_layout_map));
    add_entry(strategy, "data_layout_map", layouts_node(spec.data_layout_map));
    add_entry(strategy, "unmatched_rules", text_node(spec.unmatched_rules_warn ? "warn" : "error"));
  }
  auto map = map_node();
  add_entry(map, is_model_parallel ? "ModelParallel" : "DataParallel", std::move(strategy));
  add_entry(map, "micro_batches", int_node(spec.micro_batches));
  add_entry(map, "zero_stage", int_node(spec.zero_stage));
  return map;
}

void read_strategy_name(const Node& node, DistributionSpec& spec) {
  const auto name = node.as_text("distribution");
  if (name == "ModelParallel") read_model_parallel(Node{}, node.pos, spec);
  if (name != "DataParallel")
    fail_at(node.pos, ExitCode::kConfig, "distribution must be DataParallel or ModelParallel, found '{}'", name);
}

}  // namespace

Section<DistributionSpec> read_distribution(const Node& node) {
  DistributionSpec spec;
  spec.pos = node.pos;
  if (node.is_scalar()) {
    read_strategy_name(node, spec);
  } else if (!node.is_null()) {
    require_section_keys(node, "distribution");
    const Node* data_parallel = node.find("DataParallel");
    const Node* model_parallel = node.find("ModelParallel");
    if (data_parallel != nullptr && model_parallel != nullptr)
      fail_at(node.pos, ExitCode::kConfig, "distribution is DataParallel or ModelParallel, not both");
    if (data_parallel != nullptr) read_data_parallel(*data_parallel, spec);
    if (model_parallel != nullptr) read_model_parallel(*model_parallel, model_parallel->pos, spec);
    if (const Node* count = node.find("micro_batches")) {
      spec.micro_batches = count->as_int("micro_batches");
      if (spec.micro_batches < 1 || spec.micro_batches >= 1000000000)
        fail_at(count->pos, ExitCode::kConfig, "micro_batches must be positive and below 1000000000, found {}",
                spec.micro_batches);
    }
    if (const Node* stage = node.find("zero_stage")) {
      const auto value = stage->as_int("zero_stage");
      if (value < 0 || value > 3)
        fail_at(stage->pos, ExitCode::kConfig, "zero_stage must be 0, 1, 2 or 3, found {}", value);
      spec.zero_stage = static_cast<int>(value);
    }
  }
  return {spec, resolved_node(spec)};
}

}  // namespace tessera::config
