#include "train/saved_state.h"

#include <algorithm>

namespace tessera::train {
namespace {

constexpr std::int64_t kPieceBytes = std::int64_t{16} << 20;

bool is_partial(const partition::StateBuffer& state) { return !state.layout.partial.empty(); }

}  // namespace

std::vector<checkpoint::ShardFile> SavedFiles::all() const {
  auto files = model;
  files.insert(files.end(), optimizer.begin(), optimizer.end());
  return files;
}

std::int64_t SavedFiles::bytes() const {
  std::int64_t bytes = 0;
  for (const auto& file : all())
    for (const auto& tensor : file.tensors) bytes += elements(tensor.shape) * size_of(tensor.dtype);
  return bytes;
}

checkpoint::TensorSpec saved_tensor(const partition::Plan& plan, const partition::StateBuffer& state) {
  auto shape = state.shape;
  if (state.variable.role == graph::VariableRole::kMetric) shape.insert(shape.begin(), plan.mesh.ranks());
  return {state.variable.path, state.dtype, shape};
}

SavedFiles saved_files(const partition::Plan& plan) {
  std::vector<checkpoint::TensorSpec> model, optimizer;
  for (const auto& state : plan.state)
    (state.variable.role == graph::VariableRole::kWeight ? model : optimizer).push_back(saved_tensor(plan, state));
  return {checkpoint::split_into_files(std::move(model), "model"),
          checkpoint::split_into_files(std::move(optimizer), "optimizer")};
}

std::vector<SavedPart> parts_to_save(const partition::Plan& plan, std::int64_t rank) {
  const auto coordinates = plan.mesh.coordinates(rank);
  std::vector<SavedPart> parts;
  for (const auto& state : plan.state) {
    if (state.variable.role == graph::VariableRole::kMetric) {
      Box row{Shape(state.shape.size() + 1, 0), state.shape};
      row.start[0] = rank;
      row.size.insert(row.size.begin(), 1);
      parts.push_back({&state, row, 0, elements(state.shape)});
      continue;
    }
    TESSERA_CHECK(!is_partial(state), "'{}' is a partial sum", state.variable.path);
    const auto share = mesh::share_of_replica(state.layout, plan.mesh, coordinates, state.shape);
    if (share.count > 0)
      parts.push_back(
          {&state, mesh::owned(state.layout, plan.mesh, coordinates, state.shape).front(), share.first, share.count});
  }
  return parts;
}

void for_each_piece(const Box& box, DType dtype, const std::function<void(const Box&, std::int64_t)>& visit) {
  if (box.size.empty()) return visit(box, 0);
  const auto rows = box.size[0];
  if (elements(box.size) == 0) return;
  const auto row_bytes = elements(box.size) / rows * size_of(dtype);
  const auto step = std::max<std::int64_t>(kPieceBytes / row_bytes, 1);
  for (std::int64_t row = 0; row < rows; row += step) {
    auto piece = box;
    piece.start[0] += row;
    piece.size[0] = std::min(step, rows - row);
    visit(piece, row * row_bytes);
  }
}

}  // namespace tessera::train
