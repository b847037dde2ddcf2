#include <algorithm>
#include <cstring>
#include <numeric>

#include "device/cpu/context.h"
#include "device/cpu/kernels.h"
#include "device/cpu/parallel.h"

namespace tessera::device::cpu {
namespace {

const char* bytes_in(const Args& args, int k) { return args.in<char>(k); }
char* bytes_out(const Args& args, int k) { return args.out<char>(k); }

void move(char* to, const char* from, std::int64_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

void zero(char* to, std::int64_t bytes) {
  if (bytes > 0) std::memset(to, 0, static_cast<std::size_t>(bytes));
}

constexpr std::int64_t kByteGrain = kGrain * 8;

/// The grain in runs of so many bytes.
std::int64_t run_grain(std::int64_t bytes) {
  return std::max<std::int64_t>(1, kByteGrain / std::max<std::int64_t>(bytes, 1));
}

/// f(from, bytes) over parts of a range of bytes.
template <class F>
void over_bytes(int threads, std::int64_t bytes, const F& f) {
  parallel_for(threads, bytes, kByteGrain, [&](std::int64_t begin, std::int64_t end) { f(begin, end - begin); });
}

/// Operands of one dtype, which moves unread. Returns bytes of an element.
std::int64_t require_one_dtype(const KernelSpec& spec, DType dtype) {
  for (const auto& t : spec.inputs) require(spec, t.dtype == dtype, "the dtypes differ");
  for (const auto& t : spec.outputs) require(spec, t.dtype == dtype, "the dtypes differ");
  return size_of(dtype);
}

std::int64_t product(const Shape& shape, std::size_t first, std::size_t last) {
  std::int64_t p = 1;
  for (auto d = first; d < last; ++d) p *= shape[d];
  return p;
}

}  // namespace

std::unique_ptr<Kernel> make_copy(const KernelSpec& spec, Context& context) {
  require_counts(spec, 1, 1);
  const auto size = require_one_dtype(spec, spec.inputs[0].dtype);
  const auto n = elements(spec.inputs[0].shape);  // the shapes may differ: a reshape
  require(spec, elements(spec.outputs[0].shape) == n, "the sizes differ");
  return kernel_of([bytes = n * size, threads = context.threads](const Args& args) {
    over_bytes(threads, bytes, [&](std::int64_t at, std::int64_t count) {
      move(bytes_out(args, 0) + at, bytes_in(args, 0) + at, count);
    });
  });
}

namespace {

template <class T>
std::unique_ptr<Kernel> fill_with(T value, std::int64_t n, int threads) {
  return kernel_of([=](const Args& args) {
    parallel_for(threads, n, kGrain, [&](std::int64_t begin, std::int64_t end) {
      std::fill(args.out<T>(0) + begin, args.out<T>(0) + end, value);
    });
  });
}

}  // namespace

std::unique_ptr<Kernel> make_fill(const KernelSpec& spec, Context& context) {
  require_counts(spec, 0, 1);
  const auto value = number(spec.attributes, "value");
  const auto n = elements(spec.outputs[0].shape);
  switch (spec.outputs[0].dtype) {
    case DType::kF32:
      return fill_with(static_cast<float>(value), n, context.threads);
    case DType::kF64:
      return fill_with(value, n, context.threads);
    case DType::kI32:
      return fill_with(static_cast<std::int32_t>(value), n, context.threads);
    case DType::kI64:
      return fill_with(static_cast<std::int64_t>(value), n, context.threads);
    case DType::kU8:
      return fill_with(static_cast<std::uint8_t>(value), n, context.threads);
    case DType::kBool:
      return fill_with(static_cast<std::uint8_t>(value != 0), n, context.threads);
    case DType::kBF16:
    case DType::kF16:
      break;
  }
  require(spec, value == 0, "two-byte floats are filled with 0 only");
  return fill_with(std::uint16_t{0}, n, context.threads);
}

std::unique_ptr<Kernel> make_keep_or_zero(const KernelSpec& spec, Context& context) {
  require_counts(spec, 1, 1);
  const auto size = require_one_dtype(spec, spec.inputs[0].dtype);
  require(spec, spec.outputs[0].shape == spec.inputs[0].shape, "the shapes differ");
  return kernel_of([bytes = elements(spec.inputs[0].shape) * size, keep = spec.attributes.get<bool>("keep"),
                    threads = context.threads](const Args& args) {
    over_bytes(threads, bytes, [&](std::int64_t at, std::int64_t count) {
      keep ? move(bytes_out(args, 0) + at, bytes_in(args, 0) + at, count) : zero(bytes_out(args, 0) + at, count);
    });
  });
}

// y's rows (runs of its last dimension) are filled one by one: zeros, the part that x has, zeros.
std::unique_ptr<Kernel> make_copy_box(const KernelSpec& spec, Context& context) {
  require_counts(spec, 1, 1);
  const auto size = require_one_dtype(spec, spec.inputs[0].dtype);
  auto x_box = Box{start_of(spec.inputs[0]), spec.inputs[0].shape};
  auto y_box = Box{start_of(spec.outputs[0]), spec.outputs[0].shape};
  require(spec, x_box.size.size() == y_box.size.size(), "the boxes have different numbers of dimensions");
  if (y_box.size.empty()) x_box = y_box = {{0}, {1}};
  const auto common = intersection(x_box, y_box);
  const auto last = y_box.size.size() - 1;
  const auto cols = y_box.size[last];
  const bool nothing = empty(common);
  const auto front = nothing ? cols : common.start[last] - y_box.start[last];
  const auto middle = nothing ? 0 : common.size[last];
  const auto x_strides = strides_of(x_box.size);
  const auto rows = cols == 0 ? 0 : elements(y_box.size) / cols;
  return kernel_of([=, threads = context.threads](const Args& args) {
    parallel_for(threads, rows, run_grain(cols * size), [&](std::int64_t begin, std::int64_t end) {
      for (auto r = begin; r < end; ++r) {
        bool inside = !nothing;
        std::int64_t from = nothing ? 0 : common.start[last] - x_box.start[last];
        auto index = r;
        for (auto d = last; d-- > 0; index /= y_box.size[d]) {
          const auto at = y_box.start[d] + index % y_box.size[d] - x_box.start[d];
          inside &= at >= 0 && at < x_box.size[d];
          from += at * x_strides[d];
        }
        auto* y = bytes_out(args, 0) + r * cols * size;
        if (!inside) {
          zero(y, cols * size);
          continue;
        }
        zero(y, front * size);
        move(y + front * size, bytes_in(args, 0) + from * size, middle * size);
        zero(y + (front + middle) * size, (cols - front - middle) * size);
      }
    });
  });
}

namespace {

/// Blocks of `run` bytes that lie (outer, parts) on one side and (parts, outer) on the other.
struct Chunks {
  std::int64_t outer = 1, parts = 1, run = 1;
};

// The chunked operand is (n, a, b, c), the other one (a, n b, c).
Chunks chunks_of(const KernelSpec& spec, const TensorSpec& whole, const TensorSpec& chunked) {
  const auto size = require_one_dtype(spec, whole.dtype);
  const auto dim = spec.attributes.get<std::int64_t>("dim");
  const auto parts = spec.attributes.get<std::int64_t>("parts");
  require(spec, dim >= 0 && dim < static_cast<std::int64_t>(whole.shape.size()) && parts > 0,
          "there is no such dimension");
  require(spec, whole.shape[dim] % parts == 0, "the dimension does not divide");
  require(spec, elements(whole.shape) == elements(chunked.shape), "the sizes differ");
  const auto outer = product(whole.shape, 0, dim);
  return {outer, parts, product(whole.shape, dim, whole.shape.size()) / parts * size};
}

/// x (rows, cols) -> y (cols, rows), of blocks of `run` bytes.
std::unique_ptr<Kernel> transpose(std::int64_t rows, std::int64_t cols, std::int64_t run, int threads) {
  return kernel_of([=](const Args& args) {
    parallel_for(threads, rows * cols, run_grain(run), [&](std::int64_t begin, std::int64_t end) {
      for (auto k = begin; k < end; ++k)
        move(bytes_out(args, 0) + k * run, bytes_in(args, 0) + (k % rows * cols + k / rows) * run, run);
    });
  });
}

}  // namespace

std::unique_ptr<Kernel> make_pack(const KernelSpec& spec, Context& context) {
  require_counts(spec, 1, 1);
  const auto c = chunks_of(spec, spec.inputs[0], spec.outputs[0]);
  return transpose(c.outer, c.parts, c.run, context.threads);
}

std::unique_ptr<Kernel> make_unpack(const KernelSpec& spec, Context& context) {
  require_counts(spec, 1, 1);
  const auto c = chunks_of(spec, spec.outputs[0], spec.inputs[0]);
  return transpose(c.parts, c.outer, c.run, context.threads);
}

namespace {

/// Bytes of a contiguous run from `dim` on.
std::int64_t run_bytes(const Shape& shape, std::int64_t dim, std::int64_t size) {
  return product(shape, static_cast<std::size_t>(dim), shape.size()) * size;
}

}  // namespace

std::unique_ptr<Kernel> make_concat(const KernelSpec& spec, Context& context) {
  require(spec, !spec.inputs.empty() && spec.outputs.size() == 1, "it joins one tensor or more");
  const auto& whole = spec.outputs[0];
  const auto size = require_one_dtype(spec, whole.dtype);
  const auto dim = spec.attributes.get<std::int64_t>("dim");
  require(spec, dim >= 0 && dim < static_cast<std::int64_t>(whole.shape.size()), "there is no such dimension");
  std::vector<std::int64_t> runs;
  std::int64_t sum = 0;
  for (const auto& t : spec.inputs) {
    auto expected = whole.shape;
    require(spec, t.shape.size() == whole.shape.size(), "the tensors have different numbers of dimensions");
    expected[dim] = t.shape[dim];
    require(spec, t.shape == expected, "the other dimensions differ");
    sum += t.shape[dim];
    runs.push_back(run_bytes(t.shape, dim, size));
  }
  require(spec, sum == whole.shape[dim], "the parts do not make up the whole");
  const auto outer = product(whole.shape, 0, dim), row = run_bytes(whole.shape, dim, size);
  return kernel_of([=, threads = context.threads](const Args& args) {
    parallel_for(threads, outer, run_grain(row), [&](std::int64_t begin, std::int64_t end) {
      for (auto r = begin; r < end; ++r) {
        auto* to = bytes_out(args, 0) + r * row;
        for (std::size_t k = 0; k < runs.size(); to += runs[k++])
          move(to, bytes_in(args, static_cast<int>(k)) + r * runs[k], runs[k]);
      }
    });
  });
}

std::unique_ptr<Kernel> make_split(const KernelSpec& spec, Context& context) {
  require(spec, spec.inputs.size() == 1, "it cuts one tensor");
  const auto& whole = spec.inputs[0];
  const auto size = require_one_dtype(spec, whole.dtype);
  const auto dim = spec.attributes.get<std::int64_t>("dim");
  const auto& sizes = spec.attributes.get<std::vector<std::int64_t>>("sizes");
  const auto& which = spec.attributes.get<std::vector<std::int64_t>>("which");
  require(spec, dim >= 0 && dim < static_cast<std::int64_t>(whole.shape.size()), "there is no such dimension");
  require(spec, which.size() == spec.outputs.size(), "`which` names every output");
  require(spec, std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}) == whole.shape[dim],
          "the parts do not make up the whole");
  const auto unit = product(whole.shape, static_cast<std::size_t>(dim) + 1, whole.shape.size()) * size;
  struct Part {
    std::int64_t offset, run;
  };
  std::vector<Part> parts;
  for (std::size_t k = 0; k < which.size(); ++k) {
    require(spec, which[k] >= 0 && which[k] < static_cast<std::int64_t>(sizes.size()), "there is no such part");
    auto expected = whole.shape;
    expected[dim] = sizes[which[k]];
    require(spec, spec.outputs[k].shape == expected, "an output has another shape than its part");
    const auto before = std::accumulate(sizes.begin(), sizes.begin() + which[k], std::int64_t{0});
    parts.push_back({before * unit, sizes[which[k]] * unit});
  }
  const auto outer = product(whole.shape, 0, dim), row = run_bytes(whole.shape, dim, size);
  return kernel_of([=, threads = context.threads](const Args& args) {
    parallel_for(threads, outer, run_grain(row), [&](std::int64_t begin, std::int64_t end) {
      for (auto r = begin; r < end; ++r)
        for (std::size_t k = 0; k < parts.size(); ++k)
          move(bytes_out(args, static_cast<int>(k)) + r * parts[k].run, bytes_in(args, 0) + r * row + parts[k].offset,
               parts[k].run);
    });
  });
}

// y's rows (runs of its last dimension) are copies of x's, or repeat one element of it.
std::unique_ptr<Kernel> make_broadcast_to(const KernelSpec& spec, Context& context) {
  require_counts(spec, 1, 1);
  const auto size = require_one_dtype(spec, spec.inputs[0].dtype);
  const auto shape = spec.outputs[0].shape.empty() ? Shape{1} : spec.outputs[0].shape;
  auto x = spec.inputs[0].shape;
  require(spec, x.size() <= shape.size(), "x has more dimensions than y");
  x.insert(x.begin(), shape.size() - x.size(), 1);
  auto strides = strides_of(x);
  for (std::size_t d = 0; d < x.size(); ++d) {
    require(spec, x[d] == shape[d] || x[d] == 1, "a dimension is neither 1 nor y's");
    if (x[d] == 1) strides[d] = 0;
  }
  const auto last = shape.size() - 1;
  const auto row = shape[last] * size, run = x[last] * size;
  const auto rows = row == 0 ? 0 : elements(shape) / shape[last];
  return kernel_of([=, threads = context.threads](const Args& args) {
    parallel_for(threads, rows, run_grain(row), [&](std::int64_t begin, std::int64_t end) {
      for (auto r = begin; r < end; ++r) {
        std::int64_t from = 0;
        auto index = r;
        for (auto d = last; d-- > 0; index /= shape[d]) from += index % shape[d] * strides[d];
        auto* y = bytes_out(args, 0) + r * row;
        for (std::int64_t at = 0; at < row; at += run) move(y + at, bytes_in(args, 0) + from * size, run);
      }
    });
  });
}

}  // namespace tessera::device::cpu
