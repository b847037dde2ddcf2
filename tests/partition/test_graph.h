#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "partition/assignment.h"

namespace tessera::partition::testing {

/// Names of axes for each dimension: {{}, {"model"}} is [null, model].
using Dims = std::vector<std::vector<std::string>>;

/// Builds graphs of ops that have rules but no kernels, for the solver alone.
class TestGraph {
 public:
  explicit TestGraph(DType dtype = DType::kF32) : dtype_(dtype) {}

  const graph::Graph& graph() const { return graph_; }
  const Shape& shape(int node) const { return graph_.node(node).shape(); }

  int input(const std::string& name, const Shape& shape, std::optional<Dims> layout = {},
            std::optional<DType> dtype = {});
  int variable(const std::string& name, const Shape& shape, std::optional<Dims> layout = {}, int zero_stage = 0,
               bool frozen = false);
  void pin(int node, Dims layout) { pins_[node] = std::move(layout); }

  int einsum(const std::string& name, const std::string& rule, int x, int w, std::map<char, std::int64_t> sizes = {},
             const std::string& whole = "");
  int bias(const std::string& name, const std::string& rule, int x, int b);
  int relu(const std::string& name, const std::string& rule, int x);
  int add(const std::string& name, const std::string& rule, const std::vector<int>& xs);
  int layer_norm(const std::string& name, int x, int gamma, int beta);  // bsd,d,d->bsd
  int batch_norm(const std::string& name, int x, int gamma, int beta);  // nhwc,c,c->nhwc
  int embed(const std::string& name, int table, int ids);               // vd,bs->bsd
  int sparse_cross_entropy(const std::string& name, const std::string& rule, int z, int y);
  int reshape(const std::string& name, const std::string& rule, int x, std::map<char, std::int64_t> sizes = {});
  int concat(const std::string& name, int a, int b);  // bx,by->bz
  int weighted_sum(const std::string& name, const std::string& rule, int x);
  int sum_of_squares(const std::string& name, const std::string& rule, int x);
  int conv(const std::string& name, int x, int kernel);  // nhwc, 3x3, same
  int pool(const std::string& name, int x);              // 2x2
  /// q (b, s, h, e), k and v (b, t, kv, e), mask (b, t) or -1.
  int attention(const std::string& name, int q, int k, int v, int mask, bool ring, bool heads);

  /// Default: batch axes on dimension 0 of inputs, variables replicated. The graph and mesh must outlive it.
  SolverInput solver_input(const mesh::DeviceMesh& mesh, const std::vector<std::string>& batch,
                           const Hardware& hardware) const;

 private:
  int op(const std::string& name, graph::OpTraits traits, const std::vector<int>& args);
  graph::OpTraits traits(const std::string& rule, const std::vector<int>& args,
                         std::map<char, std::int64_t> sizes = {});

  DType dtype_;
  graph::Graph graph_;
  std::map<int, Dims> layouts_, pins_;
  std::map<int, int> zero_stages_;
};

/// A machine of round numbers: 8 devices a node, 400 and 800 TFLOP/s, 3 TB/s, links of 300 and 45 GB/s.
Hardware h100x8();

}  // namespace tessera::partition::testing
