#pragma once

#include "graph/graph.h"

namespace tessera::layers {

/// A tensor of the global graph, as a layer's code sees it: a handle.
class Tensor {
 public:
  Tensor(const graph::Graph& graph, int id) : graph_(&graph), id_(id) {}

  const Shape& shape() const { return graph_->node(id_).shape(); }
  DType dtype() const { return graph_->node(id_).dtype(); }
  std::size_t rank() const { return shape().size(); }
  int id() const { return id_; }

 private:
  const graph::Graph* graph_;
  int id_;
};

}  // namespace tessera::layers
