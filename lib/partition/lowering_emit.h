#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/emit.h"
#include "partition/assignment.h"
#include "partition/program_builder.h"

namespace tessera::partition {

/// Emit for one op and one pass, on the local shards of its chosen strategy.
class LoweringEmit final : public graph::Emit {
 public:
  /// `operands`: values in the strategy's layouts; -1 where the pass doesn't read one.
  LoweringEmit(ProgramBuilder& builder, const Assignment& assignment, int solver_node, const graph::Node& node,
               const Strategy& strategy, std::vector<int> operands);

  void place_result(int value) { result_ = value; }
  void set_backward(int cotangent, int result, std::map<std::string, int> saved);
  void want_cotangent(int k, bool of_variable, bool accumulate);
  std::map<std::string, int> take_saved() const;

  const graph::Node& node() const override { return node_; }
  graph::Value input(int k) override;
  graph::Value result() override;
  graph::Value cotangent() override { return {cotangent_}; }
  bool needs(int k) const override { return cotangents_.contains(k); }
  graph::Value cotangent_of(int k) override;
  bool accumulate(int k) const override;
  bool split(const std::string& factors) const override { return !axes_of(factors).empty(); }
  graph::Value temp(const std::string& name, const std::string& factors, DType dtype, const Shape& extra) override;
  void save(const std::string& name, graph::Value value) override { saved_[name] = value.id; }
  graph::Value saved(const std::string& name) override;
  void kernel(const std::string& name, const std::vector<graph::Value>& inputs,
              const std::vector<graph::Value>& outputs, const Attributes& attributes) override;
  void all_reduce(graph::Value value, const std::string& over, graph::ReduceKind kind) override;

 private:
  std::vector<mesh::Axis> axes_of(const std::string& factors) const;
  int current(int value) const;

  ProgramBuilder& builder_;
  const Assignment& assignment_;
  int solver_node_;
  const graph::Node& node_;
  const Strategy& strategy_;
  std::vector<int> operands_;
  int result_ = -1;
  int cotangent_ = -1;
  struct Cotangent {
    int value = -1;
    bool accumulate = false;
  };
  std::map<int, Cotangent> cotangents_;
  std::map<std::string, int> saved_;
  std::map<int, int> reduced_;  // a handle stands for the reduced value after all_reduce
};

}  // namespace tessera::partition
