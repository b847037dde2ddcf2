#include "checkpoint/reader.h"

#include <algorithm>
#include <array>
#include <set>

#include "checkpoint/convert.h"
#include "core/box_runs.h"
#include "core/error.h"
#include "core/text.h"

namespace tessera::checkpoint {
namespace {

constexpr std::int64_t kWindow = std::int64_t{1} << 20;
constexpr std::int64_t kMaxHeader = 100'000'000;  // the format's own limit
constexpr std::int64_t kNearGap = 1 << 14;        // runs nearer than this are read together

std::int64_t little_endian(const std::array<unsigned char, 8>& bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) value |= std::uint64_t{bytes[i]} << (8 * i);
  return static_cast<std::int64_t>(value);
}

/// A view of the file that moves forward.
class Window {
 public:
  Window(const File& file, std::int64_t end) : file_(file), end_(end) {}

  /// Bytes [offset, offset + bytes), bytes <= kWindow; reads on up to `ahead` bytes where they are not there yet.
  const char* at(std::int64_t offset, std::int64_t bytes, std::int64_t ahead) {
    if (offset < begin_ || offset + bytes > begin_ + static_cast<std::int64_t>(buffer_.size())) {
      begin_ = offset;
      buffer_.resize(static_cast<std::size_t>(std::min(std::max(bytes, ahead), end_ - offset)));
      file_.read(buffer_.data(), static_cast<std::int64_t>(buffer_.size()), offset);
    }
    return buffer_.data() + (offset - begin_);
  }

 private:
  const File& file_;
  std::int64_t begin_ = 0, end_;
  std::vector<char> buffer_;
};

}  // namespace

SafetensorsReader::SafetensorsReader(const std::string& path) : path_(path), file_(File::open_to_read(path)) {
  const auto size = file_.size();
  std::array<unsigned char, 8> prefix{};
  if (size < 8) fail(ExitCode::kCheckpoint, "{}: has {} bytes; this is no safetensors file", path, size);
  file_.read(prefix.data(), 8, 0);
  const auto length = little_endian(prefix);
  if (length < 0 || length > kMaxHeader || length > size - 8)
    fail(ExitCode::kCheckpoint,
         "{}: claims a header of {} bytes in a file of {}; it is cut short or no safetensors file", path,
         static_cast<std::uint64_t>(length), size);
  std::string json(static_cast<std::size_t>(length), '\0');
  file_.read(json.data(), length, 8);
  header_ = parse_header(json, 8 + length, size, path);
}

void require_fit(const std::string& path, const TensorSpec& stored, const TensorSpec& wanted) {
  if (stored.shape != wanted.shape)
    fail(ExitCode::kCheckpoint, "{}: tensor '{}' is {}, the model's is {}", path, wanted.name, to_string(stored.shape),
         to_string(wanted.shape));
  if (!is_convertible(stored.dtype, wanted.dtype))
    fail(ExitCode::kCheckpoint, "{}: tensor '{}' is {} and cannot be read as {}", path, wanted.name,
         to_string(stored.dtype), to_string(wanted.dtype));
}

const StoredTensor& SafetensorsReader::at(const std::string& name) const {
  const auto it = header_.tensors.find(name);
  if (it != header_.tensors.end()) return it->second;
  std::vector<std::string> names;
  for (const auto& [key, tensor] : header_.tensors) names.push_back(key);
  fail(ExitCode::kCheckpoint, "{}: has no tensor '{}'{}", path_, name, did_you_mean(name, names));
}

std::vector<std::string> SafetensorsReader::require(const std::vector<TensorSpec>& wanted) const {
  std::set<std::string> names;
  for (const auto& spec : wanted) {
    require_fit(path_, at(spec.name), spec);
    names.insert(spec.name);
  }
  std::vector<std::string> unwanted;
  for (const auto& [name, tensor] : header_.tensors)
    if (!names.contains(name)) unwanted.push_back(name);
  return unwanted;
}

void SafetensorsReader::read_box(const std::string& name, const Box& box, void* destination, DType as) const {
  const auto& tensor = at(name);
  if (!is_convertible(tensor.dtype, as))
    fail(ExitCode::kCheckpoint, "{}: tensor '{}' is {} and cannot be read as {}", path_, name, to_string(tensor.dtype),
         to_string(as));
  const BoxRuns runs(tensor.shape, box);
  const auto item = size_of(tensor.dtype);
  const auto run_bytes = runs.length() * item;
  const auto ahead = (runs.stride() - runs.length()) * item <= kNearGap ? kWindow : 0;
  auto* target = static_cast<char*>(destination);
  Window window(file_, tensor.begin + runs.end() * item);
  runs.for_each([&](std::int64_t first) {
    const auto offset = tensor.begin + first * item;
    if (tensor.dtype == as && run_bytes >= kWindow) {
      file_.read(target, run_bytes, offset);
      target += run_bytes;
      return;
    }
    for (std::int64_t done = 0; done < runs.length();) {
      const auto count = std::min(runs.length() - done, kWindow / item);
      const auto* source = window.at(offset + done * item, count * item, ahead);
      if (!convert(source, tensor.dtype, target, as, count))
        fail(ExitCode::kCheckpoint, "{}: tensor '{}' has a value that does not fit in {}", path_, name, to_string(as));
      target += count * size_of(as);
      done += count;
    }
  });
}

void SafetensorsReader::read_elements(const std::string& name, std::int64_t first, std::int64_t count,
                                      void* destination) const {
  const auto& tensor = at(name);
  const auto item = size_of(tensor.dtype);
  TESSERA_CHECK(first >= 0 && count >= 0 && tensor.begin + (first + count) * item <= tensor.end,
                "elements {} to {} of '{}'", first, first + count, name);
  file_.read(destination, count * item, tensor.begin + first * item);
}

}  // namespace tessera::checkpoint
