#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "config/node.h"
#include "layers/tensor.h"

namespace tessera::layers {

/// The layer that is being applied.
struct Application {
  std::string type;  // "Dense"
  std::string path;  // of its variables: "block_0/dense_1"
  int index = 0;     // k for its k-th application
  bool trainable = true;
  SourcePos pos;

  /// "dense_1", "dense_1#1"
  std::string name() const { return index == 0 ? path : fmt::format("{}#{}", path, index); }
};

/// What a layer's code speaks to. Every method adds to the graph under the name of the current layer.
class Builder {
 public:
  Builder(graph::Graph& graph, std::uint64_t seed, bool training) : graph_(graph), seed_(seed), training_(training) {}

  /// Dropout drops only then.
  bool training() const { return training_; }
  const Application& layer() const { return layer_; }
  graph::Graph& graph() { return graph_; }

  /// What follows belongs to this layer.
  void begin(Application layer) { layer_ = std::move(layer); }

  /// Error (config) at the layer's place: "config.yaml:9:7: Dense 'dense_1': ..."
  template <typename... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> text, Args&&... args) const {
    fail_at(layer_.pos, ExitCode::kConfig, "{} '{}': {}", layer_.type, layer_.name(),
            fmt::format(text, std::forward<Args>(args)...));
  }

  Tensor input(const std::string& name, const Shape& shape, DType dtype);
  /// The layer's variable; a second application of the layer finds the same one.
  Tensor variable(const std::string& name, const Shape& shape, const config::Constructor& initializer,
                  DType dtype = DType::kF32);

  Tensor matmul(Tensor x, Tensor kernel);  // (..., k) (k, n) -> (..., n)
  Tensor add_bias(Tensor x, Tensor bias);  // bias (n) or more trailing dimensions of x
  Tensor activation(Tensor x, const std::optional<config::Constructor>& activation);  // absent: linear
  Tensor add(const std::vector<Tensor>& terms);                                       // broadcast as numpy does
  Tensor concat(const std::vector<Tensor>& parts, std::size_t dim);
  Tensor reshape(Tensor x, const Shape& shape);
  Tensor affine(Tensor x, double scale, double offset);
  Tensor cast(Tensor x, DType dtype);
  /// `seed` in place of the model's.
  Tensor dropout(Tensor x, double rate, std::optional<std::int64_t> seed);

  /// Any op. The node is named "layer/name".
  Tensor op(const graph::Op& op, const std::string& name, const std::vector<Tensor>& operands,
            const Attributes& attributes = {}, bool prologue = false);

 private:
  /// fail()s for more dimensions or elements than a plan can count with.
  void check_shape(const std::string& name, const Shape& shape) const;

  graph::Graph& graph_;
  std::uint64_t seed_;
  bool training_;
  Application layer_;
};

}  // namespace tessera::layers
