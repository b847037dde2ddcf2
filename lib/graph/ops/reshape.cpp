// The same elements in another shape. Rule: the common refinement of both shapes, nhwc -> n(hwc), n(hw)c -> nhwc. Where
// a boundary of one shape falls inside a factor of the other, the dimensions between are whole.
#include <numeric>

#include "graph/ops/common.h"
#include "graph/ops/ops.h"

namespace tessera::graph {
namespace {

/// Walks both shapes from the left and cuts them into factors.
class Refinement {
 public:
  Refinement(const Shape& from, const Shape& to) : from_{from}, to_{to} {
    while (!from_.done() || !to_.done()) step();
  }

  std::string rule() const {
    return from_.text() + "->" + to_.text() + (whole_.empty() ? "" : ";" + whole_ + " whole");
  }
  const std::map<char, std::int64_t>& sizes() const { return sizes_; }

 private:
  struct Side {
    explicit Side(const Shape& of) : shape(of), dims(of.size()) { open(); }
    bool done() const { return at == shape.size(); }
    void open() { left = done() ? 1 : shape[at]; }
    /// `letter` takes `size` of what is left of the dimension.
    void take(char letter, std::int64_t size) {
      dims[at] += letter;
      left /= size;
      if (left > 1) return;
      ++at;
      open();
    }
    std::string text() const {
      std::string all;
      for (const auto& dim : dims) all += dim.size() == 1 ? dim : "(" + dim + ")";
      return all;
    }
    Shape shape;
    std::vector<std::string> dims;
    std::size_t at = 0;
    std::int64_t left = 1;
  };

  char letter(std::int64_t size) {
    constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    TESSERA_CHECK(sizes_.size() < kLetters.size(), "reshape {} -> {}", to_string(from_.shape), to_string(to_.shape));
    const char next = kLetters[sizes_.size()];
    sizes_[next] = size;
    return next;
  }

  void step() {
    // Dimensions of size 1 stand on both sides where they meet (the batch may be 1), else on one.
    if (!from_.done() && !to_.done() && from_.left == to_.left) {
      const char f = letter(from_.left);
      const auto size = from_.left;
      from_.take(f, size);
      to_.take(f, size);
    } else if (!from_.done() && from_.left == 1) {
      from_.take(letter(1), 1);
    } else if (!to_.done() && to_.left == 1) {
      to_.take(letter(1), 1);
    } else if (const auto common = std::gcd(from_.left, to_.left); common > 1) {
      const char f = letter(common);
      from_.take(f, common);
      to_.take(f, common);
    } else {
      merge();
    }
  }

  /// Takes dimensions from both sides until their products agree; none of them can be split.
  void merge() {
    std::int64_t from = take_whole(from_);
    std::int64_t to = take_whole(to_);
    while (from != to) (from < to ? from : to) *= take_whole(from < to ? from_ : to_);
  }

  std::int64_t take_whole(Side& side) {
    const auto size = side.left;
    const char f = letter(size);
    whole_ += f;
    side.take(f, size);
    return size;
  }

  Side from_, to_;
  std::map<char, std::int64_t> sizes_;
  std::string whole_;
};

OpTraits traits(const Attributes& attributes, std::span<const TensorInfo> operands) {
  const auto& shape = attributes.get<std::vector<std::int64_t>>("shape");
  TESSERA_CHECK(elements(shape) == elements(operands[0].shape), "reshape {} -> {}", to_string(operands[0].shape),
                to_string(shape));
  const Refinement refinement(operands[0].shape, shape);
  auto t = traits_of(refinement.rule(), operands, refinement.sizes());
  t.dtype = operands[0].dtype;
  t.linear = {{0}};
  t.passes = true;
  return t;
}

void forward(Emit& e) { e.kernel("copy", {e.input(0)}, {e.result()}); }

void backward(Emit& e) {
  write_cotangent(e, 0, [&](Value dx) { e.kernel("copy", {e.cotangent()}, {dx}); });
}

}  // namespace

const Op kReshape{"reshape", traits, forward, backward};

}  // namespace tessera::graph
