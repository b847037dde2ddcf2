#include <numeric>

#include "device/cuda/kernels.h"
#include "device/cuda/launch.h"
#include "device/cuda/strided_copy.h"

namespace tessera::device::cuda {
namespace {

constexpr int kThreads = 256;

template <typename T>
__global__ void __launch_bounds__(kThreads) fill(T* data, std::int64_t n, T value) {
  const auto stride = threads_of_grid();
  for (auto i = thread_of_grid(); i < n; i += stride) data[i] = value;
}

template <typename T>
std::unique_ptr<Kernel> fill_with(const Context& context, Stream stream, T value, std::int64_t n) {
  return kernel_of(context, stream, [=](const Args& args) {
    launch(args.stream, {blocks_for(n, kThreads * 4), kThreads}, fill<T>, args.out<T>(0), n, value);
  });
}

void move(const Args& args, std::size_t bytes) {
  if (bytes == 0 || args.inputs[0] == args.outputs[0]) return;
  check(cudaMemcpyAsync(args.outputs[0], args.inputs[0], bytes, cudaMemcpyDeviceToDevice, args.stream),
        "cudaMemcpyAsync");
}

void zero(const Args& args, std::size_t bytes) {
  if (bytes > 0) check(cudaMemsetAsync(args.outputs[0], 0, bytes, args.stream), "cudaMemsetAsync");
}

/// Operands of one dtype, which moves unread. Returns bytes of an element.
std::int64_t require_one_dtype(const KernelSpec& spec, DType dtype) {
  for (const auto& t : spec.inputs) require(spec, t.dtype == dtype, "the dtypes differ");
  for (const auto& t : spec.outputs) require(spec, t.dtype == dtype, "the dtypes differ");
  return size_of(dtype);
}

std::int64_t product(const Shape& shape, std::int64_t first, std::size_t last) {
  return elements(Shape(shape.begin() + first, shape.begin() + static_cast<std::ptrdiff_t>(last)));
}

/// Neighbouring threads write neighbouring units.
template <typename Unit, typename Index, bool kBounded>
__global__ void __launch_bounds__(kThreads)
    copy_strided(const __grid_constant__ StridedCopy copy, const Unit* __restrict__ x, Unit* __restrict__ y) {
  const auto stride = threads_of_grid();
  for (auto at = thread_of_grid(); at < copy.count; at += stride) {
    const auto [from, to, inside] = units_of<Index, kBounded>(copy, at);
    y[to] = inside ? x[from] : Unit{};
  }
}

template <typename Unit>
void launch_copy(const StridedCopy& copy, const void* x, void* y, cudaStream_t stream) {
  const bool narrow = fits_32_bits(copy.count);
  const auto kernel =
      narrow         ? copy.bounded ? copy_strided<Unit, std::uint32_t, true> : copy_strided<Unit, std::uint32_t, false>
              : copy.bounded ? copy_strided<Unit, std::int64_t, true>
                     : copy_strided<Unit, std::int64_t, false>;
  launch(stream, {blocks_for(copy.count, kThreads), kThreads}, kernel, copy, static_cast<const Unit*>(x),
         static_cast<Unit*>(y));
}

/// A walk in the widest units and, for operands that are not aligned to them, in elements.
class StridedCopier {
 public:
  StridedCopier(const std::vector<CopyDim>& dims, std::int64_t x_start, std::int64_t y_start, std::int64_t size)
      : wide_(plan_copy(dims, x_start, y_start, size)),
        plain_(plan_copy(dims, x_start, y_start, size, static_cast<int>(size))) {}

  void run(const void* x, void* y, cudaStream_t stream) const {
    const auto address = reinterpret_cast<std::uintptr_t>(x) | reinterpret_cast<std::uintptr_t>(y);
    const auto& copy = address % static_cast<std::uintptr_t>(wide_.unit) == 0 ? wide_ : plain_;
    switch (copy.unit) {
      case 16:
        return launch_copy<uint4>(copy, x, y, stream);
      case 8:
        return launch_copy<uint2>(copy, x, y, stream);
      case 4:
        return launch_copy<std::uint32_t>(copy, x, y, stream);
      case 2:
        return launch_copy<std::uint16_t>(copy, x, y, stream);
      default:
        return launch_copy<std::uint8_t>(copy, x, y, stream);
    }
  }

 private:
  StridedCopy wide_, plain_;
};

std::unique_ptr<Kernel> strided_kernel(const Context& context, Stream stream, const StridedCopier& copier) {
  return kernel_of(context, stream,
                   [copier](const Args& args) { copier.run(args.inputs[0], args.outputs[0], args.stream); });
}

}  // namespace

std::unique_ptr<Kernel> make_copy(const KernelSpec& spec, Context& context, Stream stream) {
  require_counts(spec, 1, 1);
  const auto size = require_one_dtype(spec, spec.inputs[0].dtype);
  const auto n = elements(spec.inputs[0].shape);  // the shapes may differ: a reshape
  require(spec, elements(spec.outputs[0].shape) == n, "the sizes differ");
  return kernel_of(context, stream,
                   [bytes = static_cast<std::size_t>(n * size)](const Args& args) { move(args, bytes); });
}

std::unique_ptr<Kernel> make_fill(const KernelSpec& spec, Context& context, Stream stream) {
  require_counts(spec, 0, 1);
  const auto value = number(spec.attributes, "value");
  const auto n = elements(spec.outputs[0].shape);
  switch (spec.outputs[0].dtype) {
    case DType::kF32:
      return fill_with(context, stream, static_cast<float>(value), n);
    case DType::kF64:
      return fill_with(context, stream, value, n);
    case DType::kI32:
      return fill_with(context, stream, static_cast<std::int32_t>(value), n);
    case DType::kI64:
      return fill_with(context, stream, static_cast<std::int64_t>(value), n);
    case DType::kU8:
      return fill_with(context, stream, static_cast<std::uint8_t>(value), n);
    case DType::kBool:
      return fill_with(context, stream, static_cast<std::uint8_t>(value != 0), n);
    case DType::kBF16:
    case DType::kF16:
      break;
  }
  require(spec, value == 0, "two-byte floats are filled with 0 only");
  return fill_with(context, stream, std::uint16_t{0}, n);
}

std::unique_ptr<Kernel> make_keep_or_zero(const KernelSpec& spec, Context& context, Stream stream) {
  require_counts(spec, 1, 1);
  const auto size = require_one_dtype(spec, spec.inputs[0].dtype);
  require(spec, spec.outputs[0].shape == spec.inputs[0].shape, "the shapes differ");
  const auto bytes = static_cast<std::size_t>(elements(spec.inputs[0].shape) * size);
  return kernel_of(context, stream, [bytes, keep = spec.attributes.get<bool>("keep")](const Args& args) {
    keep ? move(args, bytes) : zero(args, bytes);
  });
}

std::unique_ptr<Kernel> make_copy_box(const KernelSpec& spec, Context& context, Stream stream) {
  require_counts(spec, 1, 1);
  const auto size = require_one_dtype(spec, spec.inputs[0].dtype);
  const auto &x = spec.inputs[0].shape, &y = spec.outputs[0].shape;
  require(spec, x.size() == y.size(), "the boxes have different numbers of dimensions");
  const auto x_at = start_of(spec.inputs[0]), y_at = start_of(spec.outputs[0]);
  if (empty(intersection({x_at, x}, {y_at, y})))
    return kernel_of(context, stream,
                     [bytes = static_cast<std::size_t>(elements(y) * size)](const Args& args) { zero(args, bytes); });
  const auto x_strides = strides_of(x), y_strides = strides_of(y);
  std::vector<CopyDim> dims;
  std::int64_t x_start = 0;
  for (std::size_t d = 0; d < y.size(); ++d) {
    const auto low = x_at[d] - y_at[d];
    x_start -= low * x_strides[d];
    dims.push_back({y[d], x_strides[d], y_strides[d], low > 0 ? low : 0, low + x[d] < y[d] ? low + x[d] : y[d]});
  }
  return strided_kernel(context, stream, {dims, x_start, 0, size});
}

namespace {

/// Blocks of `run` elements that lie (outer, parts) on one side and (parts, outer) on the other.
struct Chunks {
  std::int64_t outer, parts, run, size;
};

// The chunked operand is (n, a, b, c), the other one (a, n b, c).
Chunks chunks_of(const KernelSpec& spec, const TensorSpec& whole, const TensorSpec& chunked) {
  const auto size = require_one_dtype(spec, whole.dtype);
  const auto dim = spec.attributes.get<std::int64_t>("dim");
  const auto parts = spec.attributes.get<std::int64_t>("parts");
  require(spec, dim >= 0 && dim < std::ssize(whole.shape) && parts > 0, "there is no such dimension");
  require(spec, whole.shape[dim] % parts == 0, "the dimension does not divide");
  require(spec, elements(whole.shape) == elements(chunked.shape), "the sizes differ");
  return {product(whole.shape, 0, dim), parts, product(whole.shape, dim, whole.shape.size()) / parts, size};
}

/// x (rows, cols, run) -> y (cols, rows, run)
StridedCopier transpose(std::int64_t rows, std::int64_t cols, std::int64_t run, std::int64_t size) {
  return {{{cols, run, rows * run}, {rows, cols * run, run}, {run, 1, 1}}, 0, 0, size};
}

}  // namespace

std::unique_ptr<Kernel> make_pack(const KernelSpec& spec, Context& context, Stream stream) {
  require_counts(spec, 1, 1);
  const auto c = chunks_of(spec, spec.inputs[0], spec.outputs[0]);
  return strided_kernel(context, stream, transpose(c.outer, c.parts, c.run, c.size));
}

std::unique_ptr<Kernel> make_unpack(const KernelSpec& spec, Context& context, Stream stream) {
  require_counts(spec, 1, 1);
  const auto c = chunks_of(spec, spec.outputs[0], spec.inputs[0]);
  return strided_kernel(context, stream, transpose(c.parts, c.outer, c.run, c.size));
}

std::unique_ptr<Kernel> make_concat(const KernelSpec& spec, Context& context, Stream stream) {
  require(spec, !spec.inputs.empty() && spec.outputs.size() == 1, "it joins one tensor or more");
  const auto& whole = spec.outputs[0];
  const auto size = require_one_dtype(spec, whole.dtype);
  const auto dim = spec.attributes.get<std::int64_t>("dim");
  require(spec, dim >= 0 && dim < std::ssize(whole.shape), "there is no such dimension");
  const auto outer = product(whole.shape, 0, dim), row = product(whole.shape, dim, whole.shape.size());
  const auto unit = product(whole.shape, dim + 1, whole.shape.size());
  std::vector<StridedCopier> copiers;
  std::int64_t before = 0;
  for (const auto& t : spec.inputs) {
    auto expected = whole.shape;
    require(spec, t.shape.size() == whole.shape.size(), "the tensors have different numbers of dimensions");
    expected[dim] = t.shape[dim];
    require(spec, t.shape == expected, "the other dimensions differ");
    const auto run = t.shape[dim] * unit;
    copiers.push_back({{{outer, run, row}, {run, 1, 1}}, 0, before * unit, size});
    before += t.shape[dim];
  }
  require(spec, before == whole.shape[dim], "the parts do not make up the whole");
  return kernel_of(context, stream, [copiers](const Args& args) {
    for (std::size_t k = 0; k < copiers.size(); ++k) copiers[k].run(args.inputs[k], args.outputs[0], args.stream);
  });
}

std::unique_ptr<Kernel> make_split(const KernelSpec& spec, Context& context, Stream stream) {
  require(spec, spec.inputs.size() == 1, "it cuts one tensor");
  const auto& whole = spec.inputs[0];
  const auto size = require_one_dtype(spec, whole.dtype);
  const auto dim = spec.attributes.get<std::int64_t>("dim");
  const auto& sizes = spec.attributes.get<std::vector<std::int64_t>>("sizes");
  const auto& which = spec.attributes.get<std::vector<std::int64_t>>("which");
  require(spec, dim >= 0 && dim < std::ssize(whole.shape), "there is no such dimension");
  require(spec, which.size() == spec.outputs.size(), "`which` names every output");
  require(spec, std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}) == whole.shape[dim],
          "the parts do not make up the whole");
  const auto outer = product(whole.shape, 0, dim), row = product(whole.shape, dim, whole.shape.size());
  const auto unit = product(whole.shape, dim + 1, whole.shape.size());
  std::vector<StridedCopier> copiers;
  for (std::size_t k = 0; k < which.size(); ++k) {
    require(spec, which[k] >= 0 && which[k] < std::ssize(sizes), "there is no such part");
    auto expected = whole.shape;
    expected[dim] = sizes[which[k]];
    require(spec, spec.outputs[k].shape == expected, "an output has another shape than its part");
    const auto before = std::accumulate(sizes.begin(), sizes.begin() + which[k], std::int64_t{0});
    const auto run = sizes[which[k]] * unit;
    copiers.push_back({{{outer, row, run}, {run, 1, 1}}, before * unit, 0, size});
  }
  return kernel_of(context, stream, [copiers](const Args& args) {
    for (std::size_t k = 0; k < copiers.size(); ++k) copiers[k].run(args.inputs[0], args.outputs[k], args.stream);
  });
}

std::unique_ptr<Kernel> make_broadcast_to(const KernelSpec& spec, Context& context, Stream stream) {
  require_counts(spec, 1, 1);
  const auto size = require_one_dtype(spec, spec.inputs[0].dtype);
  const auto& shape = spec.outputs[0].shape;
  auto x = spec.inputs[0].shape;
  require(spec, x.size() <= shape.size(), "x has more dimensions than y");
  x.insert(x.begin(), shape.size() - x.size(), 1);
  const auto x_strides = strides_of(x), y_strides = strides_of(shape);
  std::vector<CopyDim> dims;
  for (std::size_t d = 0; d < x.size(); ++d) {
    require(spec, x[d] == shape[d] || x[d] == 1, "a dimension is neither 1 nor y's");
    dims.push_back({shape[d], x[d] == 1 ? 0 : x_strides[d], y_strides[d]});
  }
  return strided_kernel(context, stream, {dims, 0, 0, size});
}

}  // namespace tessera::device::cuda
