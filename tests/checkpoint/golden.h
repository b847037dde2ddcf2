#pragma once

#include <string>

namespace tessera::checkpoint {

/// The length and the JSON of a safetensors file.
inline std::string with_length(const std::string& json) {
  std::string bytes(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(json.size() >> (8 * i) & 0xFF);
  return bytes + json;
}

/// Written by hand: "a" F32 (2, 3) = 0 .. 5, "b" I32 () = 7, "c" BOOL (2) = {1, 0}.
inline std::string golden() {
  return with_length(R"({"__metadata__":{"format":"pt"},)"
                     R"("a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
                     R"("b":{"dtype":"I32","shape":[],"data_offsets":[24,28]},)"
                     R"("c":{"dtype":"BOOL","shape":[2],"data_offsets":[28,30]}})"
                     "  ") +
         std::string(
             "\x00\x00\x00\x00\x00\x00\x80\x3f\x00\x00\x00\x40\x00\x00\x40\x40\x00\x00\x80\x40\x00\x00\xa0\x40"
             "\x07\x00\x00\x00"
             "\x01\x00",
             30);
}

}  // namespace tessera::checkpoint
