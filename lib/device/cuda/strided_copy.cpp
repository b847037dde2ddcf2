#include "device/cuda/strided_copy.h"

#include <algorithm>
#include <bit>

#include "core/error.h"

namespace tessera::device::cuda {
namespace {

bool is_whole(const CopyDim& d) { return d.low == 0 && d.high == d.size; }

std::vector<CopyDim> joined(const std::vector<CopyDim>& dims) {
  std::vector<CopyDim> result;
  for (const auto& d : dims) {
    if (d.size == 1 && is_whole(d)) continue;
    if (!result.empty()) {
      auto& outer = result.back();
      if (is_whole(d) && outer.x_stride == d.size * d.x_stride && outer.y_stride == d.size * d.y_stride) {
        outer = {outer.size * d.size, d.x_stride, d.y_stride, outer.low * d.size, outer.high * d.size};
        continue;
      }
    }
    result.push_back(d);
  }
  if (result.empty()) result.push_back({1, 1, 1});
  return result;
}

/// The division by a number below 2^31 as a multiplication: Granlund and Montgomery 1994, figure 4.1.
void set_divisor(StridedCopy::Dim& dim) {
  if (dim.size < 1 || dim.size > INT32_MAX) return;
  const auto size = static_cast<std::uint64_t>(dim.size);
  dim.shift = static_cast<std::uint32_t>(std::bit_width(size - 1));
  dim.magic =
      static_cast<std::uint32_t>(((std::uint64_t{1} << 32) * ((std::uint64_t{1} << dim.shift) - size)) / size + 1);
}

}  // namespace

StridedCopy plan_copy(std::vector<CopyDim> dims, std::int64_t x_start, std::int64_t y_start, std::int64_t size,
                      int widest) {
  dims = joined(dims);
  TESSERA_CHECK(std::ssize(dims) <= StridedCopy::kMostDims, "a copy with {} dimensions that do not join", dims.size());
  auto& last = dims.back();
  auto unit = size;
  if (last.x_stride == 1 && last.y_stride == 1) {
    auto bits = x_start | y_start | last.size | last.low | last.high;
    for (std::size_t d = 0; d + 1 < dims.size(); ++d) bits |= dims[d].x_stride | dims[d].y_stride;
    bits *= size;
    while (unit < widest && bits % (2 * unit) == 0) unit *= 2;
    const auto elements = unit / size;
    last = {last.size / elements, 1, 1, last.low / elements, last.high / elements};
    for (std::size_t d = 0; d + 1 < dims.size(); ++d) {
      dims[d].x_stride /= elements;
      dims[d].y_stride /= elements;
    }
    x_start /= elements;
    y_start /= elements;
  }
  StridedCopy copy{};
  copy.dim_count = static_cast<int>(dims.size());
  copy.unit = static_cast<int>(unit);
  copy.x_start = x_start;
  copy.y_start = y_start;
  copy.count = 1;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    copy.dims[d] = {dims[d].size, dims[d].x_stride, dims[d].y_stride, dims[d].low, dims[d].high, 0, 0};
    set_divisor(copy.dims[d]);
    copy.count *= dims[d].size;
    copy.bounded |= !is_whole(dims[d]);
  }
  return copy;
}

}  // namespace tessera::device::cuda
