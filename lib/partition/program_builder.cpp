#include "partition/program_builder.h"

#include <algorithm>

namespace tessera::partition {

std::int64_t local_bytes(const Shape& local, DType dtype) { return elements(local) * size_of(dtype); }

int root_of(const Program& program, int value) {
  while (program.values[static_cast<std::size_t>(value)].inside >= 0)
    value = program.values[static_cast<std::size_t>(value)].inside;
  return value;
}

bool is_slice(const Program& program, int value) {
  for (; value >= 0; value = program.values[static_cast<std::size_t>(value)].inside)
    if (program.values[static_cast<std::size_t>(value)].slice) return true;
  return false;
}

std::int64_t received_bytes(const Program& program, const mesh::DeviceMesh& mesh, const CollectiveCall& call) {
  const auto n = mesh.size(call.axes);
  std::int64_t bytes = 0;
  for (const auto& s : call.segments) bytes += program.values[static_cast<std::size_t>(s.in)].bytes;
  if (call.kind == CollectiveKind::kAllReduce) return 2 * (n - 1) * bytes / n;
  return call.kind == CollectiveKind::kAllGather ? (n - 1) * bytes : (n - 1) * bytes / n;
}

std::vector<int> reads_of(const Instruction& instruction) {
  if (const auto* kernel = std::get_if<KernelCall>(&instruction.what)) {
    auto reads = kernel->inputs;
    if (kernel->attributes.get_or("accumulate", false))
      reads.insert(reads.end(), kernel->outputs.begin(), kernel->outputs.end());
    return reads;
  }
  std::vector<int> reads;
  for (const auto& s : std::get<CollectiveCall>(instruction.what).segments) reads.push_back(s.in);
  return reads;
}

std::vector<int> writes_of(const Instruction& instruction) {
  if (const auto* kernel = std::get_if<KernelCall>(&instruction.what)) return kernel->outputs;
  std::vector<int> writes;
  for (const auto& s : std::get<CollectiveCall>(instruction.what).segments) writes.push_back(s.out);
  return writes;
}

int ProgramBuilder::add_value(const std::string& name, const Shape& shape, DType dtype, const mesh::Layout& layout,
                              Pool pool) {
  ProgramValue v;
  v.name = name;
  v.shape = shape;
  v.dtype = dtype;
  v.layout = layout;
  v.local = mesh::local_shape(layout, mesh(), shape);
  v.bytes = local_bytes(v.local, dtype);
  v.pool = pool;
  program_.values.push_back(std::move(v));
  return static_cast<int>(program_.values.size()) - 1;
}

int ProgramBuilder::add_view(int of, const std::string& name, const Shape& shape, DType dtype,
                             const mesh::Layout& layout) {
  const int id = add_value(name, shape, dtype, layout);
  value(id).inside = of;
  value(id).pool = value(of).pool;
  TESSERA_CHECK(value(id).bytes <= value(of).bytes, "{} does not fit into {}", name, value(of).name);
  return id;
}

int ProgramBuilder::state_value(const std::string& path) {
  const auto it = state_values_.find(path);
  if (it != state_values_.end()) return it->second;
  for (std::size_t i = 0; i < plan_.state.size(); ++i) {
    const auto& s = plan_.state[i];
    if (s.variable.path != path) continue;
    const int id = add_value(path, s.shape, s.dtype, s.layout, Pool::kState);
    value(id).state = static_cast<int>(i);
    return state_values_[path] = id;
  }
  fail(ExitCode::kInternal, "no state buffer '{}'", path);
}

Instruction& ProgramBuilder::kernel(const std::string& name, std::vector<int> inputs, std::vector<int> outputs,
                                    Attributes attributes) {
  Instruction i;
  i.what = KernelCall{name, std::move(inputs), std::move(outputs), std::move(attributes)};
  i.phase = place.phase;
  i.layer = place.layer;
  i.micro_batch = place.micro_batch;
  place.section->instructions.push_back(std::move(i));
  return place.section->instructions.back();
}

Instruction& ProgramBuilder::collective(CollectiveKind kind, const std::vector<mesh::Axis>& axes, int in, int out,
                                        const std::string& reason, int edge) {
  CollectiveCall call;
  call.kind = kind;
  call.axes = axes;
  call.dtype = value(in).dtype;
  call.segments = {{in, out}};
  Instruction i;
  i.moved_bytes = received_bytes(program_, mesh(), call);
  i.what = std::move(call);
  i.stream = Stream::kComm;
  i.phase = place.phase;
  i.layer = place.layer;
  i.reason = reason;
  i.edge = edge;
  place.section->instructions.push_back(std::move(i));
  return place.section->instructions.back();
}

int ProgramBuilder::to_comm(int id) {
  const int root = root_of(program_, id);
  auto& r = value(root);
  const bool copied = r.pool == Pool::kStaging || is_slice(program_, id);
  if (!copied && r.state >= 0 && r.pool == Pool::kState) {  // gathered where it lies
    r.pool = Pool::kComm;
    plan_.state[static_cast<std::size_t>(r.state)].pool = Pool::kComm;
  }
  if (copied) {
    const auto v = value(id);
    const int copy = add_value(v.name + " (copy)", v.shape, v.dtype, v.layout, Pool::kComm);
    kernel("copy", {id}, {copy});
    return copy;
  }
  r.pool = Pool::kComm;
  return id;
}

int ProgramBuilder::all_reduce(int id, std::vector<mesh::Axis> axes, graph::ReduceKind kind, const mesh::Layout& after,
                               const std::string& reason, int edge) {
  std::sort(axes.begin(), axes.end());
  if (value(root_of(program_, id)).state >= 0) {
    const auto v = value(id);
    const int copy = add_value(v.name + " (copy)", v.shape, v.dtype, v.layout, Pool::kComm);
    kernel("copy", {id}, {copy});
    id = copy;
  }
  id = to_comm(id);
  const auto v = value(id);
  const int out = add_view(id, v.name, v.shape, v.dtype, after);
  auto& i = collective(CollectiveKind::kAllReduce, axes, id, out, reason, edge);
  std::get<CollectiveCall>(i.what).reduce = kind;
  return out;
}

bool ProgramBuilder::leads(int id, int dim) const {
  const auto& local = value(id).local;
  return std::all_of(local.begin(), local.begin() + dim, [](std::int64_t n) { return n == 1; });
}

int ProgramBuilder::pack(int id, int dim, std::int64_t parts) {
  if (leads(id, dim)) return id;
  const auto v = value(id);
  const int out = add_value(v.name + " (packed)", v.shape, v.dtype, v.layout);
  kernel("pack", {id}, {out}, {{"dim", std::int64_t{dim}}, {"parts", parts}});
  return out;
}

int ProgramBuilder::unpack(int id, int dim, std::int64_t parts, const mesh::Layout& after) {
  if (leads(id, dim)) return id;
  const auto v = value(id);
  const int out = add_value(v.name, v.shape, v.dtype, after);
  kernel("unpack", {id}, {out}, {{"dim", std::int64_t{dim}}, {"parts", parts}});
  return out;
}

int ProgramBuilder::apply(int id, const std::vector<Move>& moves, const std::string& reason, int edge) {
  for (const auto& m : moves) id = move(id, m, reason, edge);
  return id;
}

int ProgramBuilder::move(int id, const Move& m, const std::string& reason, int edge) {
  const auto v = value(id);
  const auto n = mesh().size(m.axes);
  const auto fresh = [&] { return add_value(v.name, v.shape, v.dtype, m.after); };
  switch (m.kind) {
    case MoveKind::kSlice: {
      if (!leads(id, m.to_dim)) {
        const int out = fresh();
        kernel("copy_box", {id}, {out});
        return out;
      }
      const int view = add_view(id, v.name, v.shape, v.dtype, m.after);
      value(view).slice = true;
      return view;
    }
    case MoveKind::kPad: {
      const int out = fresh();
      kernel("copy_box", {id}, {out});
      return out;
    }
    case MoveKind::kZero: {
      const int out = fresh();
      kernel("keep_or_zero", {id}, {out}, {{"axes", std::vector<std::int64_t>(m.axes.begin(), m.axes.end())}});
      return out;
    }
    case MoveKind::kAllReduce:
      return all_reduce(id, m.axes, graph::ReduceKind::kSum, m.after, reason, edge);
    case MoveKind::kReduceScatter: {
      const int in = to_comm(pack(id, m.to_dim, n));
      const int out = fresh();
      collective(CollectiveKind::kReduceScatter, m.axes, in, out, reason, edge);
      return out;
    }
    case MoveKind::kAllGather: {
      const int in = to_comm(id);
      const int out = fresh();
      collective(CollectiveKind::kAllGather, m.axes, in, out, reason, edge);
      return unpack(out, m.from_dim, n, m.after);
    }
    case MoveKind::kAllToAll: {
      const int in = to_comm(pack(id, m.to_dim, n));
      const int out = fresh();
      collective(CollectiveKind::kAllToAll, m.axes, in, out, reason, edge);
      return unpack(out, m.from_dim, n, m.after);
    }
    case MoveKind::kBoxExchange: {
      const int in = to_comm(id);
      const int out = fresh();
      auto& i = collective(CollectiveKind::kBoxExchange, m.axes, in, out, reason, edge);
      i.moved_bytes =
          static_cast<std::int64_t>(m.moved_fraction * static_cast<double>(elements(v.shape) * size_of(v.dtype)));
      return out;
    }
  }
  fail(ExitCode::kInternal, "unknown move");
}

}  // namespace tessera::partition
