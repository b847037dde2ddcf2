#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "config/spec.h"
#include "core/dtype.h"
#include "core/shape.h"

namespace tessera::data {

/// What the model wants under a key: an input's name, "y" or "sample_weight".
struct Field {
  std::string key;
  Shape shape;  // of one sample
  DType dtype = DType::kF32;
  /// Random data: whole numbers from 0 to bound - 1; 0: normal numbers, floats only.
  std::int64_t bound = 0;
};

/// Where the rows of one field come from.
class Source {
 public:
  virtual ~Source() = default;

  virtual std::int64_t samples() const = 0;

  /// Writes the box (of one sample) of the samples first .. first + count - 1 to `out`, one after the other, dense, in
  /// the field's dtype. `scratch`: memory for the way, kScratchBytes. Any thread. Throws Error (data), naming file and
  /// row.
  virtual void read(std::int64_t first, std::int64_t count, const Box& box, std::byte* out,
                    std::span<std::byte> scratch) const = 0;
};

inline constexpr std::size_t kScratchBytes = std::size_t{1} << 20;

/// Samples with the fields of a model.
class Dataset {
 public:
  /// Opens .npy files, or makes random data that depends on (seed, key, index) alone. Keys other than the fields', "y"
  /// and "sample_weight" are an error; these two may be there unused. A trailing dimension of 1 may be missing or too
  /// many, as in Keras. Throws Error: config (unknown or missing key), data (files, shapes, rows), each with the place
  /// in the YAML.
  Dataset(const config::DataSpec& spec, std::vector<Field> fields, std::uint64_t seed);

  std::int64_t samples() const { return samples_; }
  const std::vector<Field>& fields() const { return fields_; }
  const Source& source(std::size_t field) const { return *sources_[field]; }
  /// Index of a field; -1 if there is none.
  int find(const std::string& key) const;

 private:
  std::vector<Field> fields_;
  std::vector<std::unique_ptr<Source>> sources_;
  std::int64_t samples_ = 0;
};

}  // namespace tessera::data
