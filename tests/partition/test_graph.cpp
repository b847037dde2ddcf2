#include "partition/test_graph.h"

#include <deque>

#include "core/error.h"
#include "mesh/distribution.h"

namespace tessera::partition::testing {
namespace {

using graph::InnerCollective;
using graph::OpTraits;
using graph::ReduceKind;

// An Op is stateless: the traits of a test op lie here, by its attribute.
std::deque<OpTraits>& stored_traits() {
  static std::deque<OpTraits> traits;
  return traits;
}

OpTraits look_up(const Attributes& attributes, std::span<const graph::TensorInfo>) {
  return stored_traits()[static_cast<std::size_t>(attributes.get<std::int64_t>("traits"))];
}

const graph::Op kTestOp{"test", look_up, [](graph::Emit&) {}, [](graph::Emit&) {}};

std::string letters_of(const graph::TensorFactors& tensor, std::size_t first, std::size_t last) {
  std::string letters;
  for (auto d = first; d < last; ++d) letters += tensor[d];
  return letters;
}

Placement placement_of(const Dims& dims, const mesh::DeviceMesh& mesh) {
  auto placement = replicated_placement();
  for (std::size_t d = 0; d < dims.size(); ++d)
    for (const auto& name : dims[d])
      if (const auto axis = mesh.find(name); mesh.size(axis) > 1)
        placement[static_cast<std::size_t>(axis)] = static_cast<Place>(d);
  return placement;
}

// ZeRO: the batch axes that are free go onto the first dimension that divides.
Placement widened(Placement placement, const Shape& shape, const mesh::DeviceMesh& mesh,
                  const std::vector<mesh::Axis>& batch) {
  std::vector<mesh::Axis> free;
  for (const auto axis : batch)
    if (placement[static_cast<std::size_t>(axis)] == kReplicated && mesh.size(axis) > 1) free.push_back(axis);
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::int64_t parts = mesh.size(free);
    for (mesh::Axis axis = 0; axis < mesh.axis_count(); ++axis)
      if (placement[static_cast<std::size_t>(axis)] == static_cast<Place>(d)) parts *= mesh.size(axis);
    if (shape[d] % parts != 0) continue;
    for (const auto axis : free) placement[static_cast<std::size_t>(axis)] = static_cast<Place>(d);
    break;
  }
  return placement;
}

}  // namespace

Hardware h100x8() {
  Hardware h;
  h.name = "h100x8";
  h.flops_f32 = 4e14;
  h.flops_bf16 = 8e14;
  h.memory_bytes_per_s = 3e12;
  h.kernel_us = 5;
  h.local = {10, 300e9};
  h.remote = {20, 45e9};
  h.devices_per_node = 8;
  return h;
}

int TestGraph::input(const std::string& name, const Shape& shape, std::optional<Dims> layout,
                     std::optional<DType> dtype) {
  const auto node = graph_.add_input(name, shape, dtype.value_or(dtype_), 0);
  if (layout) layouts_[node] = *layout;
  return node;
}

int TestGraph::variable(const std::string& name, const Shape& shape, std::optional<Dims> layout, int zero_stage,
                        bool frozen) {
  graph::Variable variable;
  variable.path = name;
  variable.trainable = !frozen;
  const auto node = graph_.add_variable(variable, shape, dtype_);
  if (layout) layouts_[node] = *layout;
  zero_stages_[node] = zero_stage;
  return node;
}

OpTraits TestGraph::traits(const std::string& rule, const std::vector<int>& args, std::map<char, std::int64_t> sizes) {
  std::vector<Shape> shapes;
  for (const auto arg : args) shapes.push_back(shape(arg));
  OpTraits t;
  t.rule = graph::parse_rule(rule, shapes, std::move(sizes));
  t.shape = graph::shape_of(t.rule.result, t.rule.sizes);
  t.dtype = dtype_;
  t.masks_rows = true;
  return t;
}

int TestGraph::op(const std::string& name, OpTraits traits, const std::vector<int>& args) {
  stored_traits().push_back(std::move(traits));
  const auto index = static_cast<std::int64_t>(stored_traits().size()) - 1;
  return graph_.add_op(kTestOp, name, name, args, {{"traits", index}});
}

int TestGraph::einsum(const std::string& name, const std::string& rule, int x, int w,
                      std::map<char, std::int64_t> sizes, const std::string& whole) {
  auto t = traits(rule, {x, w}, std::move(sizes));
  t.rule.whole = whole;
  t.linear = {{0}, {1}};
  t.saves = {{0, {1}}, {1, {0}}};
  t.matmul = t.passes = true;
  return op(name, t, {x, w});
}

int TestGraph::bias(const std::string& name, const std::string& rule, int x, int b) {
  auto t = traits(rule, {x, b});
  t.passes = true;
  return op(name, t, {x, b});
}

int TestGraph::relu(const std::string& name, const std::string& rule, int x) {
  auto t = traits(rule, {x});
  t.saves = {{0, {0}}};
  return op(name, t, {x});
}

int TestGraph::add(const std::string& name, const std::string& rule, const std::vector<int>& xs) {
  auto t = traits(rule, xs);
  t.linear.emplace_back();
  for (std::size_t k = 0; k < xs.size(); ++k) t.linear[0].push_back(static_cast<int>(k));
  t.is_sum = true;
  return op(name, t, xs);
}

int TestGraph::layer_norm(const std::string& name, int x, int gamma, int beta) {
  auto t = traits("bsd,d,d->bsd", {x, gamma, beta});
  t.rule.composite = "d";
  t.saves = {{0, {0, 1}}, {1, {0}}};
  t.inner = {{false, ReduceKind::kSum, "d", "bs", 2}, {true, ReduceKind::kSum, "d", "bs", 2}};
  return op(name, t, {x, gamma, beta});
}

int TestGraph::batch_norm(const std::string& name, int x, int gamma, int beta) {
  auto t = traits("nhwc,c,c->nhwc", {x, gamma, beta});
  t.rule.composite = "nhw";
  t.saves = {{0, {0, 1}}, {1, {0}}};
  t.inner = {{false, ReduceKind::kSum, "nhw", "c", 2}, {true, ReduceKind::kSum, "nhw", "c", 2}};
  const auto node = op(name, t, {x, gamma, beta});
  graph_.mutable_node(node).batch_dim = 0;
  return node;
}

int TestGraph::embed(const std::string& name, int table, int ids) {
  auto t = traits("vd,bs->bsd", {table, ids});
  t.saves = {{1, {0}}};
  return op(name, t, {table, ids});
}

int TestGraph::sparse_cross_entropy(const std::string& name, const std::string& rule, int z, int y) {
  auto t = traits(rule, {z, y});
  const auto& operand = t.rule.operands[0];
  const auto classes = operand.back(), rows = letters_of(operand, 0, operand.size() - 1);
  t.rule.composite = classes;
  t.saves = {{0, {0}}, {1, {0}}};
  t.inner = {{false, ReduceKind::kMax, classes, rows, 1}, {false, ReduceKind::kSum, classes, rows, 2}};
  return op(name, t, {z, y});
}

int TestGraph::reshape(const std::string& name, const std::string& rule, int x, std::map<char, std::int64_t> sizes) {
  auto t = traits(rule, {x}, std::move(sizes));
  t.linear = {{0}};
  t.passes = true;
  return op(name, t, {x});
}

int TestGraph::concat(const std::string& name, int a, int b) {
  auto t = traits("bx,by->bz", {a, b}, {{'z', shape(a).back() + shape(b).back()}});
  t.rule.whole = "xyz";
  t.linear = {{0, 1}};
  return op(name, t, {a, b});
}

int TestGraph::weighted_sum(const std::string& name, const std::string& rule, int x) {
  auto t = traits(rule, {x});
  t.linear = {{0}};
  return op(name, t, {x});
}

int TestGraph::sum_of_squares(const std::string& name, const std::string& rule, int x) {
  auto t = traits(rule, {x});
  t.saves = {{0, {0}}};
  return op(name, t, {x});
}

int TestGraph::conv(const std::string& name, int x, int kernel) {
  const auto& k = shape(kernel);
  return einsum(name, "nhw(gi),xyi(go)->nhw(go)", x, kernel, {{'g', 1}, {'i', k[2]}, {'o', k[3]}}, "hwxy");
}

int TestGraph::pool(const std::string& name, int x) {
  auto t = traits("nhwc->nHWc", {x}, {{'H', shape(x)[1] / 2}, {'W', shape(x)[2] / 2}});
  t.rule.whole = "hwHW";
  t.linear = {{0}};
  return op(name, t, {x});
}

int TestGraph::attention(const std::string& name, int q, int k, int v, int mask, bool ring, bool heads) {
  const auto groups = shape(k)[2], shared = shape(q)[2] / groups;
  std::vector<int> args{q, k, v};
  std::string rule = "bs(gr)e,btge,btgf->bs(gr)f";
  if (mask >= 0) {
    args.push_back(mask);
    rule = "bs(gr)e,btge,btgf,bt->bs(gr)f";
  }
  auto t = traits(rule, args, {{'g', groups}, {'r', shared}});
  t.rule.composite = "t";
  t.rule.whole = "ef";
  for (int i = 0; i < static_cast<int>(args.size()); ++i) t.saves[i] = {0, 1, 2};
  t.matmul = true;
  t.inner = {{false, ReduceKind::kMax, "t", "bsgr", 1}, {false, ReduceKind::kSum, "t", "bsgrf", 1}};
  if (ring && shape(q)[1] == shape(k)[1]) {
    const std::vector<int> places(args.size(), 1);
    t.extra.push_back({"ring", places, places, 1, 1, 's'});
  }
  if (heads && shared > 1) {
    std::vector<int> operands(args.size(), -1), cotangents(args.size(), -1);
    operands[0] = cotangents[0] = 2;
    cotangents[1] = cotangents[2] = -2;
    t.extra.push_back({"heads", operands, cotangents, 2, 2, 'r'});
  }
  return op(name, t, args);
}

SolverInput TestGraph::solver_input(const mesh::DeviceMesh& mesh, const std::vector<std::string>& batch,
                                    const Hardware& hardware) const {
  SolverInput input;
  input.graph = &graph_;
  input.mesh = &mesh;
  input.hardware = &hardware;
  for (const auto& name : batch) input.batch_axes.push_back(mesh.find(name));
  for (const auto& node : graph_.nodes()) {
    if (node.kind == graph::NodeKind::kOp) continue;
    const auto found = layouts_.find(node.id);
    SolverInput::SourceLayouts layouts;
    layouts.in_layout_map = found != layouts_.end();
    if (node.kind == graph::NodeKind::kInput) {
      layouts.value = placement_of(layouts.in_layout_map ? found->second : Dims{batch}, mesh);
    } else {
      const auto stage = zero_stages_.at(node.id);
      const auto value = placement_of(layouts.in_layout_map ? found->second : Dims{}, mesh);
      const auto wide = widened(value, node.shape(), mesh, input.batch_axes);
      layouts.value = stage >= 3 ? wide : value;
      layouts.gradient = layouts.slots =
          stage >= 1 ? wide : value;  // one micro-batch: stage 1 reduces once, as stage 2
    }
    input.sources[node.id] = layouts;
  }
  for (const auto& [node, dims] : pins_) input.pins[node] = placement_of(dims, mesh);
  return input;
}

}  // namespace tessera::partition::testing
