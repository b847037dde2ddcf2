#pragma once

#include <string>
#include <vector>

#include "core/attributes.h"
#include "core/dtype.h"
#include "core/shape.h"

namespace tessera::graph {

struct Node;

enum class ReduceKind : std::uint8_t { kSum, kMax };

/// A tensor of a program, as the emitting code sees it: a handle.
struct Value {
  int id = -1;
  explicit operator bool() const { return id >= 0; }
  bool operator==(const Value&) const = default;
};

/// Through this an op writes the instructions of its forward or backward pass. All values are local shards in the
/// layouts of the chosen strategy; the op sees neither mesh nor ranks, only whether a factor is split. The contract:
///  - forward writes result(); backward writes cotangent_of(k) for each k with needs(k), each exactly once, and may
///    read cotangent() and whatever its traits save.
///  - where an operand lacks a factor that is split, its cotangent is the *local* sum: the partitioner reduces it.
///  - a kernel's name and attributes are those of lib/device/README.md.
class Emit {
 public:
  virtual ~Emit() = default;

  virtual const Node& node() const = 0;

  /// Operand k in the strategy's layout. In the backward pass only operands that the traits save.
  virtual Value input(int k) = 0;
  /// Forward: the value to write. Backward: the saved result, if the traits say so.
  virtual Value result() = 0;
  /// Backward: the cotangent of the result.
  virtual Value cotangent() = 0;
  /// Backward: whether operand k wants a cotangent, and the value to write it to. If accumulate(k) the kernel adds to
  /// what is there from the second micro-batch on (attribute `accumulate` = true, which every gradient kernel takes).
  virtual bool needs(int k) const = 0;
  virtual Value cotangent_of(int k) = 0;
  virtual bool accumulate(int k) const = 0;

  /// Whether any letter of `factors` is split over some axis in the chosen strategy.
  virtual bool split(const std::string& factors) const = 0;

  /// A new value whose dimensions are these factors of the rule ("bs": two dimensions), split as the strategy splits
  /// them. "" is a scalar. `extra` appends unsplit dimensions.
  virtual Value temp(const std::string& name, const std::string& factors, DType dtype, const Shape& extra = {}) = 0;

  /// Keeps a value of the forward pass for the backward pass, by a name that is the op's own.
  virtual void save(const std::string& name, Value value) = 0;
  virtual Value saved(const std::string& name) = 0;

  virtual void kernel(const std::string& name, const std::vector<Value>& inputs, const std::vector<Value>& outputs,
                      const Attributes& attributes = {}) = 0;

  /// In place, over all axes that split a letter of `over`. Calls in a row of one kind may be packed into one
  /// collective.
  virtual void all_reduce(Value value, const std::string& over, ReduceKind kind) = 0;
};

}  // namespace tessera::graph
