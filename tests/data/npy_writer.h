#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/shape.h"

namespace tessera::data {

/// The text that numpy.save writes before the elements.
inline std::string npy_header(const std::string& descr, const Shape& shape, const std::string& fortran = "False",
                              int version = 1) {
  auto text = fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': ({}{}), }}", descr, fortran,
                          fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  const std::size_t prefix = version == 1 ? 10 : 12;
  text.resize((prefix + text.size() + 1 + 63) / 64 * 64 - prefix - 1, ' ');
  text += '\n';
  std::string out = "\x93NUMPY";
  out += static_cast<char>(version);
  out += '\0';
  for (std::size_t i = 0; i < prefix - 8; ++i) out += static_cast<char>(text.size() >> (8 * i));
  return out + text;
}

/// A folder for the files of this process; removed at its end.
inline const std::filesystem::path& test_folder() {
  struct Folder {
    std::filesystem::path path = std::filesystem::temp_directory_path() / fmt::format("tessera_data_{}", ::getpid());
    Folder() { std::filesystem::create_directories(path); }
    ~Folder() { std::filesystem::remove_all(path); }
  };
  static const Folder kFolder;
  return kFolder.path;
}

inline std::string write_file(const std::string& name, const std::string& bytes) {
  const auto path = (test_folder() / name).string();
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

template <typename T>
std::string write_npy(const std::string& name, const std::string& descr, const Shape& shape,
                      const std::vector<T>& values) {
  const auto raw = std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  return write_file(name, npy_header(descr, shape) + raw);
}

}  // namespace tessera::data
