#include "partition/cost.h"

#include <algorithm>
#include <limits>

namespace tessera::partition {
namespace {

constexpr double kFemto = 1e15, kMicro = 1e9;  // femtoseconds of a second, of a microsecond
constexpr auto kLongest = std::numeric_limits<std::int64_t>::max();

std::int64_t whole(double femtoseconds) {
  return femtoseconds < static_cast<double>(kLongest) ? static_cast<std::int64_t>(femtoseconds) : kLongest;
}

}  // namespace

std::int64_t time_of(Cost cost) {
  const auto time = cost & (kPenalty - 1);
  return time < kLongest ? static_cast<std::int64_t>(time) : kLongest;
}

std::int64_t penalty_of(Cost cost) { return static_cast<std::int64_t>(cost / kPenalty); }

std::int64_t add_times(std::int64_t a, std::int64_t b) { return a > kLongest - b ? kLongest : a + b; }

CostModel::CostModel(const mesh::DeviceMesh& mesh, const Hardware& hardware)
    : mesh_(mesh), hardware_(hardware), kernel_(whole(hardware.kernel_us * kMicro)) {
  std::int64_t stride = mesh.ranks();
  for (mesh::Axis axis = 0; axis < mesh.axis_count(); ++axis) {
    const auto span = stride;  // ranks that this axis and those after it number
    stride /= mesh.size(axis);
    bool crosses = false;
    for (std::int64_t base = 0; base < mesh.ranks() && !crosses; base += span)
      for (std::int64_t i = 0; i < stride && !crosses; ++i)
        crosses = (base + i) / hardware.devices_per_node != (base + i + span - stride) / hardware.devices_per_node;
    remote_.push_back(crosses);
  }
}

std::int64_t CostModel::compute(double flops, DType dtype) const {
  const bool low = dtype == DType::kBF16 || dtype == DType::kF16;
  return whole(flops * kFemto / (low ? hardware_.flops_bf16 : hardware_.flops_f32));
}

std::int64_t CostModel::memory(double bytes) const { return whole(bytes * kFemto / hardware_.memory_bytes_per_s); }

Hardware::Link CostModel::link(const std::vector<mesh::Axis>& axes) const {
  const bool remote =
      std::any_of(axes.begin(), axes.end(), [&](int a) { return remote_[static_cast<std::size_t>(a)]; });
  return remote ? hardware_.remote : hardware_.local;
}

std::int64_t CostModel::latency(const std::vector<mesh::Axis>& axes) const {
  return whole(link(axes).latency_us * kMicro);
}

std::int64_t CostModel::transfer(const std::vector<mesh::Axis>& axes, double bytes) const {
  return whole(bytes * kFemto / link(axes).bytes_per_s);
}

std::int64_t CostModel::move(const Move& move, std::int64_t bytes, bool bucketed) const {
  const auto global = static_cast<double>(bytes);
  const auto before = 1 / static_cast<double>(shards(mesh_, move.before));
  const auto after = 1 / static_cast<double>(shards(mesh_, move.after));
  double packed = 0;  // share of the tensor that is read and written to bring it into the order of the ranks
  switch (move.kind) {
    case MoveKind::kSlice:
    case MoveKind::kZero:
      return 0;
    case MoveKind::kPad:
      return memory(after * global);
    case MoveKind::kAllReduce:
      break;
    case MoveKind::kAllGather:
      packed = move.from_dim > 0 ? 2 * after : 0;
      break;
    case MoveKind::kReduceScatter:
      packed = move.to_dim > 0 && !bucketed ? 2 * before : 0;
      break;
    case MoveKind::kAllToAll:
      packed = 2 * before * ((move.from_dim > 0 ? 1 : 0) + (move.to_dim > 0 ? 1 : 0));
      break;
    case MoveKind::kBoxExchange:
      packed = 2 * (before + after);
      break;
  }
  const auto sent = transfer(move.axes, static_cast<double>(moved_bytes(mesh_, move, bytes)));
  const auto started = add_times(sent, bucketed ? 0 : latency(move.axes));
  return packed == 0 ? started : add_times(started, add_times(memory(packed * global), kernel_));
}

std::int64_t CostModel::moves(const std::vector<Move>& moves, std::size_t first, std::int64_t bytes,
                              bool bucketed) const {
  std::int64_t sum = 0;
  for (auto i = first; i < moves.size(); ++i) sum = add_times(sum, move(moves[i], bytes, bucketed));
  return sum;
}

}  // namespace tessera::partition
