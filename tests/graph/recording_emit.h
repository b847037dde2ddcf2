#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "core/text.h"
#include "graph/graph.h"

namespace tessera::graph {

/// Writes down what an op emits: "row_max(x0 -> max)". Operands are x0, x1, ...; the result y, its cotangent dy, the
/// operands' dx0, dx1, ....
class RecordingEmit : public Emit {
 public:
  RecordingEmit(const Node& node, std::string split, std::vector<int> wanted = {}, bool accumulate = false)
      : node_(node), split_(std::move(split)), wanted_(std::move(wanted)), accumulate_(accumulate) {}

  const Node& node() const override { return node_; }
  Value input(int k) override { return value("x" + std::to_string(k)); }
  Value result() override { return value("y"); }
  Value cotangent() override { return value("dy"); }
  bool needs(int k) const override { return std::find(wanted_.begin(), wanted_.end(), k) != wanted_.end(); }
  Value cotangent_of(int k) override { return value("dx" + std::to_string(k)); }
  bool accumulate(int) const override { return accumulate_; }
  bool split(const std::string& factors) const override { return factors.find_first_of(split_) != std::string::npos; }
  Value temp(const std::string& name, const std::string& factors, DType, const Shape&) override {
    for (const char f : factors) (void)node_.traits.rule.sizes.at(f);
    return value(name);
  }
  void save(const std::string& name, Value) override { saved_names.push_back(name); }
  Value saved(const std::string& name) override { return value(name); }
  void kernel(const std::string& name, const std::vector<Value>& inputs, const std::vector<Value>& outputs,
              const Attributes& attributes) override {
    lines.push_back(name + "(" + list(inputs) + " -> " + list(outputs) + ")");
    last_attributes = attributes;
  }
  void all_reduce(Value value, const std::string& over, ReduceKind kind) override {
    lines.push_back((kind == ReduceKind::kMax ? "max " : "sum ") + names_[static_cast<std::size_t>(value.id)] +
                    " over " + over);
  }

  std::vector<std::string> lines, saved_names;
  Attributes last_attributes;

 private:
  Value value(const std::string& name) {
    const auto it = std::find(names_.begin(), names_.end(), name);
    const int id = static_cast<int>(it - names_.begin());
    if (it == names_.end()) names_.push_back(name);
    return {id};
  }
  std::string list(const std::vector<Value>& values) const {
    std::vector<std::string> all;
    for (const auto v : values) all.push_back(names_[static_cast<std::size_t>(v.id)]);
    return join(all);
  }

  const Node& node_;
  std::string split_;
  std::vector<int> wanted_;
  bool accumulate_;
  std::vector<std::string> names_;
};

}  // namespace tessera::graph
