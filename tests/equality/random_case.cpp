#include "equality/random_case.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/philox.h"
#include "core/shape.h"
#include "core/text.h"

namespace tessera::equality {
namespace {

class Dice {
 public:
  explicit Dice(std::uint64_t number) : key_(philox_key(number, "case", "mesh equality")) {}
  /// 0 .. n - 1
  std::int64_t roll(std::int64_t n) { return philox_bits(key_, count_++, 0) % static_cast<std::uint64_t>(n); }
  bool one_in(std::int64_t n) { return roll(n) == 0; }
  template <typename T>
  const T& pick(const std::vector<T>& from) {
    return from[static_cast<std::size_t>(roll(static_cast<std::int64_t>(from.size())))];
  }

 private:
  std::uint64_t key_;
  std::uint64_t count_ = 0;
};

struct Variable {
  std::string path;
  Shape shape;
};

/// Writes the model while it keeps track of widths and variables.
class Writer {
 public:
  explicit Writer(Dice& dice) : dice_(dice) {}

  test::Case write() {
    switch (dice_.roll(4)) {
      case 0:
        tokens();
        break;
      case 1:
        two_towers();
        break;
      default:
        tower();
        break;
    }
    finish();
    distribution();
    return case_;
  }

 private:
  std::int64_t width() { return dice_.pick<std::int64_t>({8, 12, 16, 24}); }

  std::string activation() {
    return dice_.pick<std::string>({"relu", "gelu", "tanh", "linear", "silu", "sigmoid", "elu", "softplus", "softmax",
                                    "leaky_relu", "log_softmax"});
  }

  std::string dense(const std::string& from, std::int64_t units, const std::string& act) {
    const auto name = fmt::format("dense_{}", ++count_);
    // A wide spread of biases: what is added n times must show.
    layers_ += fmt::format(
        "    - Dense: {{name: {}, units: {}, activation: {}, bias_initializer: {{RandomNormal: {{stddev: 0.5}}}}{}}}\n",
        name, units, act, from.empty() ? "" : ", inputs: [" + from + "]");
    variables_.push_back({name + "/kernel", {width_, units}});
    variables_.push_back({name + "/bias", {units}});
    outputs_.push_back(name);
    width_ = units;
    return name;
  }

  std::string norm() {
    const auto name = fmt::format("norm_{}", ++count_);
    layers_ += fmt::format(
        "    - LayerNormalization: {{name: {}, gamma_initializer: {{RandomUniform: {{minval: 0.5, maxval: 1.5}}}}, "
        "beta_initializer: {{RandomNormal: {{stddev: 0.3}}}}}}\n",
        name);
    variables_.push_back({name + "/gamma", {width_}});
    variables_.push_back({name + "/beta", {width_}});
    return name;
  }

  std::string dropout() {
    const auto name = fmt::format("dropout_{}", ++count_);
    layers_ += fmt::format("    - Dropout: {{name: {}, rate: 0.3}}\n", name);
    return name;
  }

  std::string add(const std::string& a, const std::string& b) {
    const auto name = fmt::format("add_{}", ++count_);
    layers_ += fmt::format("    - Add: {{name: {}, inputs: [{}, {}]}}\n", name, a, b);
    return name;
  }

  /// Hidden layers from the layer `at`.
  std::string body(std::string at, std::int64_t depth) {
    for (std::int64_t l = 0; l < depth; ++l) {
      const auto before = at;
      const auto before_width = width_;
      if (dice_.one_in(3)) at = norm();
      at = dense("", width(), activation());
      if (dice_.one_in(4)) at = dropout();
      if (dice_.one_in(2) && l > 0) {  // a residual, pre-norm or post-norm
        at = dense("", before_width, "linear");
        at = add(before, at);
        if (dice_.one_in(3)) at = norm();
      }
    }
    return at;
  }

  void tower() {
    width_ = width();
    inputs_ = fmt::format("{{x: {{shape: [{}]}}}}", width_);
    auto at = dense("", width(), activation());
    body(at, 1 + dice_.roll(3));
  }

  void two_towers() {
    const auto a = width(), b = width();
    inputs_ = fmt::format("{{a: {{shape: [{}]}}, b: {{shape: [{}]}}}}", a, b);
    width_ = a;
    const auto left = dense("a", width(), activation());
    const auto left_width = width_;
    width_ = b;
    const auto right = dense("b", width(), activation());
    const auto name = fmt::format("concat_{}", ++count_);
    layers_ += fmt::format("    - Concatenate: {{name: {}, inputs: [{}, {}{}]}}\n", name, left, right,
                           dice_.one_in(2) ? ", b" : "");
    width_ += left_width;
    if (layers_.find(", b]") != std::string::npos) width_ += b;
    body(name, dice_.roll(2) + 1);
  }

  void tokens() {
    case_.classes = dice_.pick<std::int64_t>({8, 12, 24});
    const auto length = dice_.pick<std::int64_t>({4, 6, 8});
    width_ = width();
    inputs_ = fmt::format("{{tokens: {{shape: [{}], dtype: int32}}}}", length);
    layers_ +=
        fmt::format("    - Embedding: {{name: embedding, input_dim: {}, output_dim: {}}}\n", case_.classes, width_);
    variables_.push_back({"embedding/embeddings", {case_.classes, width_}});
    auto at = body("embedding", 1 + dice_.roll(2));
    if (dice_.one_in(2)) {
      layers_ += "    - Flatten: {name: flatten}\n";
      width_ *= length;
    } else {
      per_position_ = true;
    }
  }

  void finish() {
    std::string loss, act = "linear";
    auto units = dice_.pick<std::int64_t>({4, 8, 12});
    switch (dice_.roll(8)) {
      case 0:
        loss = "mse";
        break;
      case 1:
        loss = "mae";
        break;
      case 2:
        loss = "{Huber: {delta: 0.7}}";
        break;
      case 3:
        loss = "{BinaryCrossentropy: {from_logits: true, label_smoothing: 0.1}}";
        break;
      case 4:
        loss = "{CategoricalCrossentropy: {from_logits: true}}";
        break;
      case 5:
        loss = "{SparseCategoricalCrossentropy: {from_logits: true, ignore_class: 1}}";
        case_.classes = units = case_.classes > 0 ? case_.classes : 8;
        break;
      case 6:
        loss = "sparse_categorical_crossentropy";
        act = "softmax";
        case_.classes = units = case_.classes > 0 ? case_.classes : 12;
        break;
      default:
        loss = "{SparseCategoricalCrossentropy: {from_logits: true}}";
        case_.classes = units = case_.classes > 0 ? case_.classes : 12;
        break;
    }
    dense("", units, act);
    if (!per_position_) case_.sample_weight = dice_.one_in(3);
    case_.batch = 5 + dice_.roll(20);
    case_.real_rows = std::max<std::int64_t>(1, case_.batch - dice_.roll(4));
    case_.model = fmt::format(
        "model:\n  inputs: {}\n  layers:\n{}compile:\n  optimizer: {{SGD: {{learning_rate: 0.05, momentum: 0.9{}}}}}\n"
        "  loss: {}\nfit: {{batch_size: {}}}\n",
        inputs_, layers_, dice_.one_in(3) ? ", global_clipnorm: 0.5" : "", loss, case_.batch);
  }

  void distribution() {
    static const std::vector<std::vector<std::int64_t>> kMeshes{{2},    {3},    {4},    {2, 2},    {2, 3}, {3, 2},
                                                                {2, 4}, {4, 2}, {1, 4}, {2, 2, 2}, {8},    {2, 1, 3}};
    const auto shape = dice_.pick(kMeshes);
    case_.ranks = static_cast<int>(elements(shape));
    std::vector<std::string> names{"data", "model", "extra"};
    names.resize(shape.size());
    if (dice_.one_in(3)) std::reverse(names.begin(), names.end());
    std::string batch;
    switch (dice_.roll(4)) {
      case 0:
        batch = "null";
        break;
      case 1:
        batch = fmt::format(
            "[{}]",
            fmt::join(names.begin(), names.begin() + 1 + dice_.roll(static_cast<std::int64_t>(names.size())), ", "));
        break;
      case 2:
        batch = names.back();
        break;
      default:
        batch = names.front();
        break;
    }
    std::string rules;
    for (const auto& v : variables_)
      if (const auto layout = layout_of(v.shape, shape, names, 2); !layout.empty())
        rules += fmt::format("      {}: {}\n", v.path, layout);
    case_.distribution = fmt::format(
        "distribution:\n  micro_batches: {}\n  zero_stage: {}\n  ModelParallel:\n    mesh: {{shape: [{}], axis_names: "
        "[{}]}}\n    batch_dim_name: {}\n    layout_map:{}\n{}",
        dice_.one_in(4) ? 2 : 1, dice_.one_in(3) ? dice_.roll(4) : 0, fmt::join(shape, ", "), fmt::join(names, ", "),
        batch, rules.empty() ? " {}" : "", rules);
  }

  /// A random legal layout, "" for none: each axis goes to a dimension that it divides, or to none.
  std::string layout_of(const Shape& shape, const Shape& mesh, const std::vector<std::string>& names,
                        std::int64_t odds) {
    auto left = shape;
    std::vector<std::vector<std::string>> dims(shape.size());
    bool any = false;
    for (std::size_t a = 0; a < mesh.size(); ++a) {
      if (!dice_.one_in(odds)) continue;
      const auto d = static_cast<std::size_t>(dice_.roll(static_cast<std::int64_t>(shape.size())));
      if (left[d] % mesh[a] != 0) continue;
      left[d] /= mesh[a];
      dims[d].push_back(names[a]);
      any = true;
    }
    if (!any) return "";
    std::vector<std::string> parts;
    for (const auto& d : dims)
      parts.push_back(d.empty() ? "null" : d.size() == 1 ? d[0] : fmt::format("[{}]", fmt::join(d, ", ")));
    return fmt::format("[{}]", fmt::join(parts, ", "));
  }

  Dice& dice_;
  test::Case case_;
  std::string inputs_, layers_;
  std::vector<Variable> variables_;
  std::vector<std::string> outputs_;
  std::int64_t width_ = 0;
  bool per_position_ = false;
  int count_ = 0;
};

}  // namespace

test::Case random_case(std::uint64_t number) {
  Dice dice(number);
  return Writer(dice).write();
}

}  // namespace tessera::equality
