#include "checkpoint/header.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/error.h"

namespace tessera::checkpoint {
namespace {

struct Row {
  DType dtype;
  const char* name;
};

constexpr std::array<Row, 8> kTable{{{DType::kF32, "F32"},
                                     {DType::kF64, "F64"},
                                     {DType::kBF16, "BF16"},
                                     {DType::kF16, "F16"},
                                     {DType::kI32, "I32"},
                                     {DType::kI64, "I64"},
                                     {DType::kU8, "U8"},
                                     {DType::kBool, "BOOL"}}};

/// Bytes of a tensor; nothing if they don't fit in 63 bits.
std::optional<std::int64_t> checked_bytes(const Shape& shape, DType dtype) {
  std::int64_t bytes = size_of(dtype);
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  for (const auto size : shape)
    if (__builtin_mul_overflow(bytes, size, &bytes)) return std::nullopt;
  return bytes;
}

/// Reads {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, "__metadata__": {"k": "v"}} event by
/// event, so that a hostile header costs no more than its length.
class HeaderSax : public nlohmann::json_sax<nlohmann::json> {
 public:
  HeaderSax(const std::string& path, std::int64_t data_start) : path_(path), data_start_(data_start) {}

  Header take() { return std::move(header_); }

  bool start_object(std::size_t) override {
    if (depth_ == 0) {
      depth_ = 1;
    } else if (depth_ == 1) {
      depth_ = 2;
      has_dtype_ = has_shape_ = has_offsets_ = false;
      tensor_ = {};
      tensor_.name = name_;
    } else {
      refuse("holds an object where none belongs");
    }
    return true;
  }

  bool end_object() override {
    if (--depth_ == 1 && !in_metadata()) finish_tensor();
    return true;
  }

  bool key(std::string& text) override {
    if (depth_ == 1) {
      name_ = text;
      const bool is_new = in_metadata() ? !std::exchange(saw_metadata_, true) : !header_.tensors.contains(name_);
      if (!is_new) fail(ExitCode::kCheckpoint, "{}: the header names '{}' twice", path_, name_);
    } else {
      field_ = text;
    }
    return true;
  }

  bool string(std::string& text) override {
    if (depth_ == 2 && in_metadata()) {
      header_.metadata[field_] = text;
    } else if (depth_ == 2 && field_ == "dtype" && !has_dtype_) {
      tensor_.dtype = parse_stored(text);
      has_dtype_ = true;
    } else {
      refuse("holds text where none belongs");
    }
    return true;
  }

  bool start_array(std::size_t) override {
    const bool is_shape = depth_ == 2 && !in_metadata() && field_ == "shape" && !has_shape_;
    const bool is_offsets = depth_ == 2 && !in_metadata() && field_ == "data_offsets" && !has_offsets_;
    if (!is_shape && !is_offsets) refuse("holds a list where none belongs");
    depth_ = 3;
    numbers_.clear();
    return true;
  }

  bool end_array() override {
    depth_ = 2;
    if (field_ == "shape") {
      tensor_.shape = numbers_;
      has_shape_ = true;
    } else {
      if (numbers_.size() != 2) refuse("needs two data_offsets");
      tensor_.begin = numbers_[0];
      tensor_.end = numbers_[1];
      has_offsets_ = true;
    }
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    constexpr auto kLimit = static_cast<number_unsigned_t>(std::numeric_limits<std::int64_t>::max());
    if (depth_ != 3) refuse("holds a number where none belongs");
    if (value > kLimit) refuse("holds a number of more than 63 bits");
    numbers_.push_back(static_cast<std::int64_t>(value));
    return true;
  }

  bool number_integer(number_integer_t) override { refuse("holds a negative number"); }
  bool number_float(number_float_t, const string_t&) override { refuse("holds a number that is not whole"); }
  bool null() override { refuse("holds a null"); }
  bool boolean(bool) override { refuse("holds a boolean"); }
  bool binary(binary_t&) override { refuse("holds binary data"); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    fail(ExitCode::kCheckpoint, "{}: the header is not JSON at byte {}; the file is damaged or no safetensors file",
         path_, position);
  }

 private:
  bool in_metadata() const { return name_ == "__metadata__"; }

  [[noreturn]] void refuse(const std::string& what) const {
    fail(ExitCode::kCheckpoint, "{}: the header's entry '{}' {}; the file is damaged or no safetensors file", path_,
         name_, what);
  }

  DType parse_stored(const std::string& text) const {
    for (const auto& row : kTable)
      if (text == row.name) return row.dtype;
    fail(ExitCode::kCheckpoint,
         "{}: tensor '{}' has the dtype '{}'; those that can be read are F32, F64, F16, BF16, I32, I64, U8, BOOL",
         path_, name_, text);
  }

  void finish_tensor() {
    if (!has_dtype_ || !has_shape_ || !has_offsets_) refuse("needs dtype, shape and data_offsets");
    const auto bytes = checked_bytes(tensor_.shape, tensor_.dtype);
    if (!bytes || tensor_.end - tensor_.begin != *bytes)
      fail(ExitCode::kCheckpoint, "{}: tensor '{}' {} {} does not fit its data_offsets {}, {}", path_, name_,
           stored_name(tensor_.dtype), to_string(tensor_.shape), tensor_.begin, tensor_.end);
    if (tensor_.end > std::numeric_limits<std::int64_t>::max() - data_start_) refuse("reaches beyond the file");
    tensor_.begin += data_start_;
    tensor_.end += data_start_;
    header_.tensors.emplace(name_, tensor_);
  }

  const std::string& path_;
  std::int64_t data_start_;
  Header header_;
  int depth_ = 0;  // 1: the header's object, 2: a tensor's or the metadata's, 3: a list
  std::string name_, field_;
  StoredTensor tensor_;
  bool has_dtype_ = false, has_shape_ = false, has_offsets_ = false, saw_metadata_ = false;
  Shape numbers_;
};

/// The data must be covered exactly once.
void check_cover(const Header& header, std::int64_t data_start, std::int64_t file_bytes, const std::string& path) {
  std::vector<const StoredTensor*> order;
  for (const auto& [name, tensor] : header.tensors) order.push_back(&tensor);
  std::sort(order.begin(), order.end(),
            [](const auto* a, const auto* b) { return std::tie(a->begin, a->end) < std::tie(b->begin, b->end); });
  auto at = data_start;
  for (const auto* tensor : order) {
    if (tensor->begin != at)
      fail(ExitCode::kCheckpoint, "{}: tensor '{}' {} the data before it; the file is damaged", path, tensor->name,
           tensor->begin < at ? "overlaps" : "leaves a hole after");
    at = tensor->end;
  }
  if (at != file_bytes)
    fail(ExitCode::kCheckpoint, "{}: the header describes {} bytes, the file has {}; it is {}", path, at, file_bytes,
         at > file_bytes ? "cut short" : "damaged");
}

}  // namespace

std::string stored_name(DType dtype) {
  for (const auto& row : kTable)
    if (row.dtype == dtype) return row.name;
  fail(ExitCode::kInternal, "dtype {} has no name in safetensors", to_string(dtype));
}

Header parse_header(std::string_view json, std::int64_t data_start, std::int64_t file_bytes, const std::string& path) {
  if (!json.starts_with('{'))
    fail(ExitCode::kCheckpoint, "{}: the header does not begin with '{{'; this is no safetensors file", path);
  HeaderSax sax(path, data_start);
  nlohmann::json::sax_parse(json.begin(), json.end(), &sax);
  auto header = sax.take();
  check_cover(header, data_start, file_bytes, path);
  return header;
}

std::string make_header(std::vector<TensorSpec> tensors, std::map<std::string, StoredTensor>& placed) {
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
    const auto bytes_a = size_of(a.dtype), bytes_b = size_of(b.dtype);
    return bytes_a != bytes_b ? bytes_a > bytes_b : a.name < b.name;
  });
  std::string json = R"({"__metadata__":{"format":"pt"})";
  std::int64_t at = 0;
  for (const auto& tensor : tensors) {
    const auto bytes = checked_bytes(tensor.shape, tensor.dtype);
    TESSERA_CHECK(bytes && *bytes <= std::numeric_limits<std::int64_t>::max() / 2 - at, "'{}' is too large",
                  tensor.name);
    StoredTensor stored{tensor, at, at + *bytes};
    json +=
        fmt::format(R"(,{}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", nlohmann::json(tensor.name).dump(),
                    stored_name(tensor.dtype), fmt::join(tensor.shape, ","), stored.begin, stored.end);
    at = stored.end;
    const bool is_new = placed.emplace(tensor.name, std::move(stored)).second;
    TESSERA_CHECK(is_new && tensor.name != "__metadata__", "tensor '{}' is given twice", tensor.name);
  }
  json += '}';
  json.resize((json.size() + 7) / 8 * 8, ' ');

  std::string header(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) header[i] = static_cast<char>(json.size() >> (8 * i) & 0xFF);
  header += json;
  for (auto& [name, tensor] : placed) {
    tensor.begin += static_cast<std::int64_t>(header.size());
    tensor.end += static_cast<std::int64_t>(header.size());
  }
  return header;
}

}  // namespace tessera::checkpoint
