#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/shape.h"
#include "data/dataset.h"
#include "data/schedule.h"
#include "mesh/device_mesh.h"
#include "mesh/layout.h"

namespace tessera::data {

/// An input of the program: whole padded batch (B, features...), where features are the field's.
struct LoaderInput {
  std::string key;
  Shape shape;
  mesh::Layout layout;  // of a micro-batch (B / micro_batches, features...)
};

struct LoaderOptions {
  Schedule::Options schedule;
  std::int64_t batch_rows = 0;  // B: at least schedule.batch_size, a multiple of micro_batches
  std::int64_t micro_batches = 1;
  bool shuffle = false;
  std::uint64_t seed = 0;
  bool prefetch = true;  // read the next batch on a thread while the current one is computed
  /// What it holds lies here: at least held_bytes(). Empty: in memory of its own.
  std::span<std::byte> memory = {};
};

/// Bytes that a loader holds to read through, and for the prefetched part of an input of so many bytes.
inline constexpr std::int64_t kLoaderBytes = static_cast<std::int64_t>(kScratchBytes);
constexpr std::int64_t prefetch_bytes(std::int64_t input) { return (input + 255) / 256 * 256; }

/// Gives a rank its part of each batch, and reads nothing else. The batch of B rows is cut into M micro-batches of B /
/// M rows in order; rows after the real ones repeat the last real one. For each micro-batch in turn a destination gets
/// the box that mesh::owned gives this rank of it. Which rows form a batch depends on no mesh.
class Loader {
 public:
  /// Allocates everything. `dataset` and options.memory must outlive the loader. Throws Error as Schedule does.
  Loader(const Dataset& dataset, const mesh::DeviceMesh& mesh, std::int64_t rank,
         const std::vector<LoaderInput>& inputs, const LoaderOptions& options);
  ~Loader();

  const Schedule& schedule() const;
  /// Bytes of this rank's part of an input, all micro-batches.
  std::int64_t bytes(std::size_t input) const;
  /// Host memory that the loader holds: kLoaderBytes, and prefetch_bytes() of each input where it prefetches.
  std::int64_t held_bytes() const;

  /// Writes the parts, destinations[i] for input i, and starts to read the batch that follows. Batches may be asked for
  /// in any order; only the order of the schedule is fast. Allocates nothing. Throws Error (data), also for what
  /// happened on the thread.
  BatchRange load(std::int64_t epoch, std::int64_t step, std::span<void* const> destinations);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera::data
