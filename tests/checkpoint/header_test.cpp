#include "checkpoint/header.h"

#include <gtest/gtest.h>

#include "checkpoint/golden.h"
#include "checkpoint/reader.h"
#include "core/error_text.h"
#include "support/temporary_folder.h"

namespace tessera::checkpoint {
namespace {

std::string sentence_of(const std::string& json, std::int64_t data_bytes) {
  return error_text([&] { parse_header(json, 100, 100 + data_bytes, "f"); });
}

TEST(Header, PlacesByElementSizeThenName) {
  std::map<std::string, StoredTensor> placed;
  const auto header =
      make_header({{"c", DType::kBool, {2}}, {"b", DType::kI32, {}}, {"a", DType::kF32, {2, 3}}}, placed);
  EXPECT_EQ(header, golden().substr(0, header.size()));
  EXPECT_EQ(header.size() % 8, 0U);
  EXPECT_EQ(placed.at("b").begin, static_cast<std::int64_t>(header.size()) + 24);
}

TEST(Header, ReadsWhatItMakes) {
  std::map<std::string, StoredTensor> placed;
  const std::vector<TensorSpec> tensors{
      {"\"quoted\"/é", DType::kBF16, {0, 3}}, {"huge", DType::kF64, {1 << 20, 1 << 20}}, {"scalar", DType::kU8, {}}};
  const auto text = make_header(tensors, placed);
  const auto start = static_cast<std::int64_t>(text.size());
  const auto header = parse_header(text.substr(8), start, start + (std::int64_t{8} << 40) + 1, "f");
  for (const auto& tensor : tensors) {
    const auto& stored = header.tensors.at(tensor.name);
    EXPECT_EQ(static_cast<const TensorSpec&>(stored), tensor);
    EXPECT_EQ(stored.begin, placed.at(tensor.name).begin);
    EXPECT_EQ(stored.end, placed.at(tensor.name).end);
  }
  EXPECT_EQ(header.metadata.at("format"), "pt");
}

TEST(Header, HostileOnesAreRefused) {
  const std::string entry = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  const std::string damaged = "; the file is damaged or no safetensors file";
  const std::vector<std::tuple<std::string, std::int64_t, std::string>> cases{
      {"[]", 0, "f: the header does not begin with '{'; this is no safetensors file"},
      {"{", 0, "f: the header is not JSON at byte 2" + damaged},
      {entry + "}", 9, "f: the header describes 108 bytes, the file has 109; it is damaged"},
      {entry + "}", 7, "f: the header describes 108 bytes, the file has 107; it is cut short"},
      {entry + R"(,"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8, "f: the header names 'a' twice"},
      {entry + R"(,"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})", 12,
       "f: tensor 'b' overlaps the data before it; the file is damaged"},
      {entry + R"(,"b":{"dtype":"F32","shape":[2],"data_offsets":[12,20]}})", 20,
       "f: tensor 'b' leaves a hole after the data before it; the file is damaged"},
      {R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8,
       "f: tensor 'a' F32 (3) does not fit its data_offsets 0, 8"},
      {R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0,
       "f: tensor 'a' F32 (4294967296, 4294967296) does not fit its data_offsets 0, 0"},
      {R"({"a":{"dtype":"F8_E4M3","shape":[8],"data_offsets":[0,8]}})", 8,
       "f: tensor 'a' has the dtype 'F8_E4M3'; those that can be read are F32, F64, F16, BF16, I32, I64, U8, BOOL"},
      {R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8,
       "f: the header's entry 'a' holds a negative number" + damaged},
      {R"({"a":{"dtype":"F32","shape":[2.5],"data_offsets":[0,8]}})", 8,
       "f: the header's entry 'a' holds a number that is not whole" + damaged},
      {R"({"a":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,8]}})", 8,
       "f: the header's entry 'a' holds a number of more than 63 bits" + damaged},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0]}})", 8,
       "f: the header's entry 'a' needs two data_offsets" + damaged},
      {R"({"a":{"dtype":"F32","shape":[2]}})", 8,
       "f: the header's entry 'a' needs dtype, shape and data_offsets" + damaged},
      {R"({"a":{"dtype":"F32","shape":null,"data_offsets":[0,8]}})", 8,
       "f: the header's entry 'a' holds a null" + damaged},
      {R"({"a":{"dtype":"F32","shape":[[2]],"data_offsets":[0,8]}})", 8,
       "f: the header's entry 'a' holds a list where none belongs" + damaged},
      {R"({"a":[1]})", 0, "f: the header's entry 'a' holds a list where none belongs" + damaged},
      {R"({"a":"F32"})", 0, "f: the header's entry 'a' holds text where none belongs" + damaged},
      {R"({"a":{"x":{}}})", 0, "f: the header's entry 'a' holds an object where none belongs" + damaged},
      {R"({"__metadata__":{"k":1}})", 0,
       "f: the header's entry '__metadata__' holds a number where none belongs" + damaged},
      {R"({"__metadata__":{},"__metadata__":{}})", 0, "f: the header names '__metadata__' twice"},
      {R"({"a":)" + std::string(100'000, '['), 0,
       "f: the header's entry 'a' holds a list where none belongs" + damaged},
  };
  for (const auto& [json, bytes, sentence] : cases)
    EXPECT_EQ(sentence_of(json, bytes), sentence) << json.substr(0, 100);
}

TEST(Header, AWrongLengthInFrontIsRefused) {
  const TemporaryFolder folder;
  const auto path = folder.file("f");
  const auto sentence = [&](const std::string& bytes) {
    write_file(path, bytes);
    return error_text([&] { SafetensorsReader{path}; });
  };
  EXPECT_EQ(sentence("abc"), path + ": has 3 bytes; this is no safetensors file");
  EXPECT_EQ(
      sentence(std::string(8, '\xff') + "{}"),
      path + ": claims a header of 18446744073709551615 bytes in a file of 10; it is cut short or no safetensors file");
  EXPECT_EQ(sentence(golden().substr(0, 40)),
            path + ": claims a header of 200 bytes in a file of 40; it is cut short or no safetensors file");
  EXPECT_EQ(error_text([&] { SafetensorsReader{folder.file("none")}; }),
            folder.file("none") + ": cannot be opened to read: No such file or directory");
  EXPECT_EQ(error_text([&] { SafetensorsReader{folder.file("")}; }), folder.file("") + ": is not a file");
}

}  // namespace
}  // namespace tessera::checkpoint
