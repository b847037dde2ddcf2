#pragma once

#include <map>
#include <memory>
#include <string>

#include "graph/graph.h"
#include "keras/golden.h"
#include "runtime/executor.h"

namespace tessera::keras {

/// Graphs planned and executed on one rank, with tensors of the golden data.
class OneRank {
 public:
  /// By program name: "train", "evaluate", "predict".
  explicit OneRank(const std::vector<std::pair<std::string, const graph::Model*>>& models);

  /// Fills an input; rows that the tensor lacks repeat its last one, as the loader pads. Absent inputs are ignored.
  void set_input(const std::string& program, const std::string& name, const Tensor& tensor);
  void set_state(const std::string& path, const Tensor& tensor);
  void run(const std::string& program, const std::string& epilogue, const device::StepParams& params);

  bool has_state(const std::string& path) const;
  double loss() const;
  std::vector<float> output(const std::string& program, const std::string& name) const;
  std::vector<float> state(const std::string& path) const;
  std::vector<float> gradient(const std::string& path) const;
  /// Total and count of a metric, and both set to 0.
  std::pair<double, double> metric(const std::string& path) const;
  void reset(const std::string& path);

 private:
  const partition::Program& program(const std::string& name) const { return plan_.programs.at(name); }

  partition::Plan plan_;
  std::unique_ptr<comm::World> world_;
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<runtime::Executor> executor_;
};

/// Parameters of a step in which every row of every tensor is real.
device::StepParams all_rows();

/// A variable whose value a test sets; a trained one has a gradient.
int add_variable(graph::Graph& graph, const std::string& path, const Shape& shape, bool trained,
                 DType dtype = DType::kF32);

}  // namespace tessera::keras
