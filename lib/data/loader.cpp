#include "data/loader.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include "core/error.h"
#include "data/shuffle.h"

namespace tessera::data {
namespace {

// A rank's part of one input.
struct Part {
  const Source* source = nullptr;
  std::int64_t first_row = 0, rows = 0;  // of a micro-batch
  Box features;
  std::size_t row_bytes = 0;
  std::size_t bytes = 0;  // of all micro-batches
  std::byte* prefetched = nullptr;
};

Part make_part(const Dataset& dataset, const mesh::DeviceMesh& mesh, std::int64_t rank, const LoaderInput& input,
               const LoaderOptions& options) {
  const auto index = dataset.find(input.key);
  TESSERA_CHECK(index >= 0, "the dataset has no '{}'", input.key);
  const auto field = static_cast<std::size_t>(index);
  auto shape = input.shape;
  TESSERA_CHECK(!shape.empty() && shape[0] == options.batch_rows, "input '{}' {}, batches of {} rows", input.key,
                tessera::to_string(shape), options.batch_rows);
  TESSERA_CHECK(std::equal(shape.begin() + 1, shape.end(), dataset.fields()[field].shape.begin(),
                           dataset.fields()[field].shape.end()),
                "input '{}' {} and samples of {}", input.key, tessera::to_string(shape),
                tessera::to_string(dataset.fields()[field].shape));
  shape[0] /= options.micro_batches;
  const auto boxes = mesh::owned(input.layout, mesh, mesh.coordinates(rank), shape);
  TESSERA_CHECK(boxes.size() == 1, "input '{}' lies in {} boxes", input.key, boxes.size());
  const auto& box = boxes[0];

  Part part;
  part.source = &dataset.source(field);
  part.first_row = box.start[0];
  part.rows = box.size[0];
  part.features = {{box.start.begin() + 1, box.start.end()}, {box.size.begin() + 1, box.size.end()}};
  part.row_bytes = static_cast<std::size_t>(elements(part.features.size) * size_of(dataset.fields()[field].dtype));
  part.bytes = part.row_bytes * static_cast<std::size_t>(part.rows * options.micro_batches);
  return part;
}

}  // namespace

struct Loader::Impl {
  Impl(const Dataset& dataset, const mesh::DeviceMesh& mesh, std::int64_t rank, const std::vector<LoaderInput>& inputs,
       const LoaderOptions& o)
      : options(o), samples(dataset.samples()), schedule(samples, o.schedule) {
    TESSERA_CHECK(o.micro_batches > 0 && o.batch_rows % o.micro_batches == 0 && o.batch_rows >= o.schedule.batch_size,
                  "{} rows for batches of {} in {} micro-batches", o.batch_rows, o.schedule.batch_size,
                  o.micro_batches);
    for (const auto& input : inputs) parts.push_back(make_part(dataset, mesh, rank, input, o));
    place_buffers();
    if (o.prefetch) thread = std::jthread([this](const std::stop_token& stop) { work(stop); });
  }

  std::int64_t held_bytes() const {
    auto bytes = kLoaderBytes;
    for (const auto& part : parts)
      if (options.prefetch) bytes += prefetch_bytes(static_cast<std::int64_t>(part.bytes));
    return bytes;
  }

  void place_buffers() {
    auto memory = options.memory;
    if (memory.empty()) {
      own_memory.resize(static_cast<std::size_t>(held_bytes()));
      memory = own_memory;
    }
    TESSERA_CHECK(held_bytes() <= std::ssize(memory), "a loader of {} bytes in {}", held_bytes(), memory.size());
    scratch = memory.first(kScratchBytes);
    auto* next = memory.data() + kScratchBytes;
    for (auto& part : parts) {
      if (!options.prefetch) continue;
      part.prefetched = next;
      next += prefetch_bytes(static_cast<std::int64_t>(part.bytes));
    }
  }

  // The samples of a pass in their order.
  std::int64_t sample_at(std::int64_t position) const { return order ? (*order)(position) : position; }

  // Reads rows [row, row + count) of the padded batch; neighbours in the dataset are read together.
  void read_rows(const Part& part, const BatchRange& batch, std::int64_t row, std::int64_t count, std::byte* out) {
    const auto sample = [&](std::int64_t r) { return sample_at(batch.first + std::min(r, batch.rows - 1)); };
    const auto stop = row + count;
    for (auto next = sample(row); row < stop;) {
      const auto first = next;
      std::int64_t run = 1;
      while (row + run < stop && (next = sample(row + run)) == first + run) ++run;
      part.source->read(first, run, part.features, out, scratch);
      out += static_cast<std::size_t>(run) * part.row_bytes;
      for (row += run; row < stop && row >= batch.rows; ++row) {  // padding: the last real row again
        std::memcpy(out, out - part.row_bytes, part.row_bytes);
        out += part.row_bytes;
      }
    }
  }

  void read(const BatchRange& batch, const Part& part, std::byte* out) {
    const auto micro_rows = options.batch_rows / options.micro_batches;
    for (std::int64_t m = 0; m < options.micro_batches;
         ++m, out += static_cast<std::size_t>(part.rows) * part.row_bytes)
      read_rows(part, batch, m * micro_rows + part.first_row, part.rows, out);
  }

  void set_order(const BatchRange& batch) {
    if (!options.shuffle || (order && order_pass == batch.pass)) return;
    order = shuffled(samples, options.seed, batch.pass);
    order_pass = batch.pass;
  }

  // Batches that hold the same rows.
  bool same(const BatchRange& a, const BatchRange& b) const {
    return a.first == b.first && (a.pass == b.pass || !options.shuffle);
  }

  BatchRange following(std::int64_t epoch, std::int64_t step) const {
    return step + 1 < schedule.steps(epoch) ? schedule.batch(epoch, step + 1) : schedule.batch(epoch + 1, 0);
  }

  void work(const std::stop_token& stop) {
    std::unique_lock lock(mutex);
    while (changed.wait(lock, stop, [&] { return wanted && !done; })) {
      const auto batch = *wanted;
      lock.unlock();
      std::exception_ptr caught;
      try {
        set_order(batch);
        for (auto& part : parts) read(batch, part, part.prefetched);
      } catch (...) {
        caught = std::current_exception();
      }
      lock.lock();
      error = caught;
      done = true;
      changed.notify_all();
    }
  }

  void ask_for(const BatchRange& batch) {
    wanted = batch;
    done = false;
    changed.notify_all();
  }

  LoaderOptions options;
  std::int64_t samples;
  Schedule schedule;
  std::vector<Part> parts;
  std::vector<std::byte> own_memory;
  std::span<std::byte> scratch;
  std::optional<Permutation> order;
  std::int64_t order_pass = 0;

  // Whoever holds the mutex may change these; `parts`, `scratch` and `order` belong to the thread while wanted and not
  // done.
  std::mutex mutex;
  std::condition_variable_any changed;
  std::optional<BatchRange> wanted;
  bool done = false;
  std::exception_ptr error;
  std::jthread thread;  // last: ends before what it uses
};

Loader::Loader(const Dataset& dataset, const mesh::DeviceMesh& mesh, std::int64_t rank,
               const std::vector<LoaderInput>& inputs, const LoaderOptions& options)
    : impl_(std::make_unique<Impl>(dataset, mesh, rank, inputs, options)) {}

Loader::~Loader() = default;

const Schedule& Loader::schedule() const { return impl_->schedule; }

std::int64_t Loader::bytes(std::size_t input) const { return static_cast<std::int64_t>(impl_->parts[input].bytes); }

std::int64_t Loader::held_bytes() const { return impl_->held_bytes(); }

BatchRange Loader::load(std::int64_t epoch, std::int64_t step, std::span<void* const> destinations) {
  auto& impl = *impl_;
  TESSERA_CHECK(destinations.size() == impl.parts.size(), "{} destinations for {} inputs", destinations.size(),
                impl.parts.size());
  const auto batch = impl.schedule.batch(epoch, step);
  if (!impl.options.prefetch) {
    impl.set_order(batch);
    for (std::size_t i = 0; i < destinations.size(); ++i)
      impl.read(batch, impl.parts[i], static_cast<std::byte*>(destinations[i]));
    return batch;
  }
  std::unique_lock lock(impl.mutex);
  const auto ready = [&] { return impl.done; };
  if (impl.wanted) impl.changed.wait(lock, ready);
  if (!impl.wanted || !impl.same(*impl.wanted, batch)) {  // not what was foreseen
    impl.ask_for(batch);
    impl.changed.wait(lock, ready);
  }
  if (impl.error) std::rethrow_exception(impl.error);
  for (std::size_t i = 0; i < destinations.size(); ++i)
    std::memcpy(destinations[i], impl.parts[i].prefetched, impl.parts[i].bytes);
  impl.ask_for(impl.following(epoch, step));
  return batch;
}

}  // namespace tessera::data
