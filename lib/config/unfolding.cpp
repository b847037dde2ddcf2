#include "config/unfolding.h"

#include <algorithm>

#include "core/text.h"

namespace tessera::config {
namespace {

constexpr std::size_t kMaxLayers = 100'000;
constexpr std::size_t kMaxArgumentNodes = 2'000'000;  // of all layers after unfolding
constexpr std::size_t kMaxPath = 500;
constexpr auto kBlockInput = "input";

std::size_t count_nodes(const Node& node) {
  std::size_t count = 1;
  for (const auto& item : node.items) count += count_nodes(item);
  for (const auto& entry : node.entries) count += count_nodes(entry.value);
  return count;
}

/// "a/b/" -> "a/", "a/" -> "".
std::string outer(const std::string& scope) {
  const auto slash = scope.size() > 1 ? scope.rfind('/', scope.size() - 2) : std::string::npos;
  return slash == std::string::npos ? "" : scope.substr(0, slash + 1);
}

std::string repetition(const std::string& path, std::int64_t k) { return fmt::format("{}_{}", path, k); }

}  // namespace

Unfolding::Unfolding(ModelSpec& model) : model_(model) {
  for (const auto& input : model.inputs) {
    declare(input.name, {input.name, input.pos});
    outputs_[input.name] = input.name;
  }
}

std::string Unfolding::unfold_model(const std::vector<Item>& items) {
  declare_all(items, "");
  std::optional<std::string> first;
  if (model_.inputs.size() == 1) first = model_.inputs.front().name;
  return unfold(items, "", first);
}

std::string Unfolding::look_up(const Name& name, const std::string& scope) const { return meaning(name, scope).output; }

Unfolding::Meaning Unfolding::meaning(const Name& name, std::string scope) const {
  const auto from = scope;
  while (true) {
    const auto path = scope + name.text;
    if (const auto above = outputs_.find(path); above != outputs_.end()) return {path, above->second};
    if (name.text == kBlockInput && !scope.empty()) return {path, block_input(name, scope)};
    if (declared_.contains(path)) {
      if (from.starts_with(path + "/"))
        fail_at(name.pos, ExitCode::kConfig, "'{}' is the block around this layer; the block's own input is named '{}'",
                name.text, kBlockInput);
      fail_at(name.pos, ExitCode::kConfig, "'{}' comes later; a layer can only read what stands above it", name.text);
    }
    if (scope.empty()) break;
    scope = outer(scope);
  }
  fail_at(name.pos, ExitCode::kConfig, "no layer or input is named '{}'{}", shortened(name.text),
          did_you_mean(name.text, visible(from)));
}

const std::string& Unfolding::block_input(const Name& name, const std::string& scope) const {
  if (declared_.contains(kBlockInput))
    fail_at(name.pos, ExitCode::kConfig,
            "'{0}' is the block's input and also the name of what is declared at {1}; rename that", kBlockInput,
            to_string(declared_.at(kBlockInput)));
  return block_inputs_.at(scope);
}

std::vector<std::string> Unfolding::visible(std::string scope) const {
  std::vector<std::string> names;
  while (true) {
    for (auto it = outputs_.lower_bound(scope); it != outputs_.end() && it->first.starts_with(scope); ++it)
      names.push_back(it->first.substr(scope.size()));
    if (scope.empty()) return names;
    scope = outer(scope);
  }
}

bool Unfolding::is_input(const std::string& name) const {
  return std::any_of(model_.inputs.begin(), model_.inputs.end(), [&](const auto& input) { return input.name == name; });
}

void Unfolding::declare(const std::string& path, const Name& name) {
  if (path.size() > kMaxPath)
    fail_at(name.pos, ExitCode::kConfig, "the path of '{}' has more than {} characters", name.text, kMaxPath);
  const auto [it, is_new] = declared_.emplace(path, name.pos);
  if (!is_new)
    fail_at(name.pos, ExitCode::kConfig, "the name '{}' is taken, at {}; give this one a `name` of its own", path,
            to_string(it->second));
}

void Unfolding::declare_all(const std::vector<Item>& items, const std::string& scope) {
  for (const auto& item : items) {
    if (!scope.empty() && item.name.text == kBlockInput)
      fail_at(item.name.pos, ExitCode::kConfig, "'{}' means the block's input inside a block; choose another name",
              kBlockInput);
    const auto path = scope + item.name.text;
    declare(path, item.name);
    if (declared_.size() > kMaxLayers)
      fail_at(item.pos, ExitCode::kConfig, "the model has more than {} layers", kMaxLayers);
    if (item.is_sequential()) declare_all(item.items, path + "/");
    for (std::int64_t k = 0; item.is_repeat() && k < item.times; ++k) {
      declare(repetition(path, k), item.name);
      declare_all(item.items, repetition(path, k) + "/");
    }
  }
}

std::vector<std::string> Unfolding::inputs_of(const Item& item, const std::string& scope,
                                              const std::optional<std::string>& previous) const {
  std::vector<std::string> inputs;
  for (const auto& name : item.inputs) inputs.push_back(look_up(name, scope));
  if (!inputs.empty()) return inputs;
  if (previous) return {*previous};
  std::vector<std::string> names;
  for (const auto& input : model_.inputs) names.push_back(input.name);
  fail_at(item.pos, ExitCode::kConfig, "the model has {} inputs: say what '{}' reads, as in inputs: [{}]", names.size(),
          item.name.text, names.front());
}

std::string Unfolding::unfold(const std::vector<Item>& items, const std::string& scope,
                              std::optional<std::string> previous) {
  if (!scope.empty()) block_inputs_[scope] = *previous;
  for (const auto& item : items) {
    const auto path = scope + item.name.text;
    auto inputs = inputs_of(item, scope, previous);
    if (item.is_sequential()) {
      previous = unfold(item.items, path + "/", inputs.front());
    } else if (item.is_repeat()) {
      previous = inputs.front();
      for (std::int64_t k = 0; k < item.times; ++k) {
        previous = unfold(item.items, repetition(path, k) + "/", previous);
        outputs_[repetition(path, k)] = *previous;
      }
    } else {
      add_layer(item, path, scope, std::move(inputs));
      previous = path;
    }
    outputs_[path] = *previous;
  }
  return *previous;
}

void Unfolding::add_layer(const Item& item, const std::string& path, const std::string& scope,
                          std::vector<std::string> inputs) {
  LayerSpec layer{item.type, path, std::move(inputs), item.arguments, item.call, item.pos};
  if (item.is_shared()) {
    add_entry(layer.arguments, "layer", text_node(shared_layer(item.shared, scope), item.shared.pos), item.shared.pos);
  } else {
    shareable_.insert(path);
  }
  argument_nodes_ += count_nodes(layer.arguments) + count_nodes(layer.call);
  if (argument_nodes_ > kMaxArgumentNodes)
    fail_at(item.pos, ExitCode::kConfig, "the arguments of all layers have more than {} values", kMaxArgumentNodes);
  model_.layers.push_back(std::move(layer));
}

std::string Unfolding::shared_layer(const Name& name, const std::string& scope) const {
  const auto [path, output] = meaning(name, scope);
  if (shareable_.contains(path)) return path;
  fail_at(name.pos, ExitCode::kConfig, "'{}' is {}; Shared applies a layer again", name.text,
          is_input(output) ? "an input"
          : path == output ? "itself a Shared"
                           : "a block");
}

}  // namespace tessera::config
