#include "runtime/orthogonal.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "runtime/draws.h"

namespace tessera::runtime {
namespace {

/// The reflections H_0 H_1 ... whose product's first `n` columns, with their signs, are the m x n matrix Q. H_i leaves
/// the first i coordinates alone.
class Reflections {
 public:
  Reflections(std::uint64_t key, std::int64_t m) : first_(key, 0), second_(key, 1), m_(m), v_(m) {}

  /// Makes the i-th the current one: the reflection that takes a normal vector to a multiple of the unit vector e_i.
  void load(std::int64_t i) {
    i_ = i;
    double squares = 0;
    for (auto k = i; k < m_; ++k) {
      const auto element = static_cast<std::uint64_t>(i * m_ + k);
      auto& x = v_[static_cast<std::size_t>(k)];
      x = normal(first_.of(element), second_.of(element));
      squares += x * x;
    }
    auto& pivot = v_[static_cast<std::size_t>(i)];
    sign_ = pivot < 0 ? 1 : -1;  // column i is turned so that the triangular factor's diagonal is positive
    const double norm = std::sqrt(squares);
    factor_ = 1 / (squares + std::abs(pivot) * norm);  // 2 / (v v)
    pivot -= sign_ * norm;
  }

  double sign() const { return sign_; }

  void apply(double* w) const {
    double dot = 0;
    for (auto k = i_; k < m_; ++k) dot += v_[static_cast<std::size_t>(k)] * w[k];
    dot *= factor_;
    for (auto k = i_; k < m_; ++k) w[k] -= dot * v_[static_cast<std::size_t>(k)];
  }

 private:
  Bits first_, second_;
  std::int64_t m_, i_ = 0;
  std::vector<double> v_;
  double sign_ = 1, factor_ = 0;
};

}  // namespace

void orthogonal_values(const graph::Initializer& init, const Shape& shape, const Box& box, std::int64_t first,
                       std::int64_t count, const std::function<void(std::int64_t, double)>& set) {
  if (count == 0) return;
  const auto columns = shape.back(), rows = elements(shape) / std::max<std::int64_t>(columns, 1);
  const bool tall = rows >= columns;
  const auto m = std::max(rows, columns), n = std::min(rows, columns);
  const auto width = box.size.back(), column = box.start.back();
  const auto strides = strides_of(shape);
  const auto row_of = [&](std::int64_t line) { return global_index(box, strides, line * width) / columns; };

  // A line of the box is a row of Q, e_row H_0 H_1 ..., or, where the matrix is wide, a column, H_0 H_1 ... e_row.
  constexpr std::int64_t kLines = 64;  // that share a reflection while it is there
  const auto lines_end = (first + count - 1) / width + 1;
#pragma omp parallel for schedule(dynamic)
  for (std::int64_t begin = first / width; begin < lines_end; begin += kLines) {
    const auto lines = std::min(kLines, lines_end - begin);
    std::vector<double> block(static_cast<std::size_t>(lines * m), 0), signs(static_cast<std::size_t>(n));
    std::int64_t last = 0;  // of the reflections that matter
    for (std::int64_t line = 0; line < lines; ++line) {
      block[static_cast<std::size_t>(line * m + row_of(begin + line))] = 1;
      last = std::max(last, tall ? n - 1 : row_of(begin + line));
    }
    Reflections reflections(init.key, m);
    for (std::int64_t turn = 0; turn <= last; ++turn) {
      const auto i = tall ? turn : last - turn;
      reflections.load(i);
      signs[static_cast<std::size_t>(i)] = reflections.sign();
      for (std::int64_t line = 0; line < lines; ++line)
        if (tall || row_of(begin + line) >= i) reflections.apply(block.data() + line * m);
    }
    for (std::int64_t line = 0; line < lines; ++line) {
      const auto from = std::max(first, (begin + line) * width),
                 to = std::min(first + count, (begin + line + 1) * width);
      for (auto k = from; k < to; ++k) {
        const auto c = column + k % width, of_q = tall ? c : row_of(begin + line);
        set(k - first,
            init.value * signs[static_cast<std::size_t>(of_q)] * block[static_cast<std::size_t>(line * m + c)]);
      }
    }
  }
}

}  // namespace tessera::runtime
