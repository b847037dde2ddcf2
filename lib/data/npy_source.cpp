#include <algorithm>

#include "core/box_runs.h"
#include "core/placed.h"
#include "data/cast.h"
#include "data/npy.h"
#include "data/sources.h"

namespace tessera::data {
namespace {

class NpySource : public Source {
 public:
  NpySource(const std::string& path, const Field& field)
      : file_(path), key_(field.key), shape_(field.shape), dtype_(field.dtype), row_(elements(field.shape)) {}

  const NpyHeader& header() const { return file_.header(); }
  std::int64_t samples() const override { return header().shape[0]; }

  void read(std::int64_t first, std::int64_t count, const Box& box, std::byte* out,
            std::span<std::byte> scratch) const override {
    if (box.size == shape_) return read_run(first * row_, count * row_, out, scratch);
    for (std::int64_t sample = first; sample < first + count; ++sample)
      out = read_box(sample * row_, box, out, scratch);
  }

 private:
  // Elements that lie together, in pieces that fit into scratch.
  void read_run(std::int64_t first, std::int64_t count, std::byte* out, std::span<std::byte> scratch) const {
    if (same_bytes(header().type, dtype_)) return file_.read(first, count, out);
    const auto most = capacity(scratch);
    for (std::int64_t done = 0; done < count; done += most) {
      const auto n = std::min(most, count - done);
      file_.read(first + done, n, scratch.data());
      convert(first + done, scratch.data(), n, out + done * size_of(dtype_));
    }
  }

  // A part of one sample: one read from its first to its last element if that fits into scratch, else a read a run.
  std::byte* read_box(std::int64_t sample, const Box& box, std::byte* out, std::span<std::byte> scratch) const {
    const BoxRuns runs(shape_, box);
    if (runs.count() == 0) return out;
    const auto low = runs.start(0), length = runs.length();
    const bool at_once = runs.end() - low <= capacity(scratch);
    if (at_once) file_.read(sample + low, runs.end() - low, scratch.data());
    runs.for_each([&](std::int64_t start) {
      if (at_once)
        convert(sample + start, scratch.data() + (start - low) * size_of(header().type), length, out);
      else
        read_run(sample + start, length, out, scratch);
      out += length * size_of(dtype_);
    });
    return out;
  }

  void convert(std::int64_t first, const std::byte* raw, std::int64_t count, std::byte* out) const {
    const auto bad = cast(header().type, raw, dtype_, out, count);
    if (bad < 0) return;
    fail(ExitCode::kData, "{}: row {} holds {}, which does not fit {} ('{}' of the model)", file_.path(),
         (first + bad) / row_, element_text(header().type, raw + bad * size_of(header().type)), to_string(dtype_),
         key_);
  }

  std::int64_t capacity(std::span<std::byte> scratch) const {
    return static_cast<std::int64_t>(scratch.size()) / size_of(header().type);
  }

  NpyFile file_;
  std::string key_;
  Shape shape_;
  DType dtype_;
  std::int64_t row_;  // elements of a sample
};

// Equal, or one has a last dimension of 1 that the other lacks: Keras accepts that too.
bool same_sample(Shape a, Shape b) {
  if (a.size() > b.size()) std::swap(a, b);
  if (b.size() == a.size() + 1 && b.back() == 1) b.pop_back();
  return a == b;
}

}  // namespace

std::unique_ptr<Source> npy_source(const std::string& path, const Field& field, const SourcePos& pos) {
  auto source = placed(pos, [&] { return std::make_unique<NpySource>(path, field); });
  const auto& shape = source->header().shape;
  if (shape.empty()) fail_at(pos, ExitCode::kData, "{} holds one number; its first dimension must count samples", path);
  if (shape[0] == 0) fail_at(pos, ExitCode::kData, "{} has no rows; give at least one sample", path);
  if (!same_sample({shape.begin() + 1, shape.end()}, field.shape))
    fail_at(pos, ExitCode::kData, "{} has the shape {}, samples of {}, but '{}' of the model has samples of {}", path,
            tessera::to_string(shape), tessera::to_string(Shape(shape.begin() + 1, shape.end())), field.key,
            tessera::to_string(field.shape));
  return source;
}

}  // namespace tessera::data
