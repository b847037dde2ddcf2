#include "checkpoint/writer.h"

#include <unistd.h>
#include <utility>

#include "core/box_runs.h"
#include "core/error.h"

namespace tessera::checkpoint {

SafetensorsWriter::SafetensorsWriter(std::string path, const std::vector<TensorSpec>& tensors, Ranks ranks)
    : path_(std::move(path)), partial_(path_ + ".partial"), ranks_(std::move(ranks)) {
  const auto header = make_header(tensors, tensors_);
  for (const auto& [name, tensor] : tensors_) data_bytes_ += tensor.end - tensor.begin;
  const auto header_bytes = static_cast<std::int64_t>(header.size());
  if (ranks_.rank == 0) {
    attempt([&] {
      file_ = File::create(partial_);
      file_.reserve(header_bytes + data_bytes_);
      file_.write(header.data(), header_bytes, 0);
    });
  }
  agree();
  if (ranks_.rank != 0) attempt([&] { file_ = File::open_to_write(partial_); });
}

SafetensorsWriter::~SafetensorsWriter() {
  if (!is_finished_) remove_partial();
}

void SafetensorsWriter::write_box(const std::string& name, const Box& box, const void* source) {
  const auto it = tensors_.find(name);
  TESSERA_CHECK(it != tensors_.end(), "no tensor '{}' was announced", name);
  const auto& tensor = it->second;
  const BoxRuns runs(tensor.shape, box);
  const auto item = size_of(tensor.dtype);
  const auto run_bytes = runs.length() * item;
  const auto* at = static_cast<const char*>(source);
  attempt([&] {
    runs.for_each([&](std::int64_t first) {
      file_.write(at, run_bytes, tensor.begin + first * item);
      at += run_bytes;
    });
  });
  written_bytes_ += runs.count() * run_bytes;
}

void SafetensorsWriter::finish() {
  attempt([&] { file_.sync_and_close(); });
  agree();
  const auto written = ranks_.sum(written_bytes_);
  TESSERA_CHECK(written == data_bytes_, "{}: {} of {} bytes were written", path_, written, data_bytes_);
  if (ranks_.rank == 0) attempt([&] { rename_durably(partial_, path_); });
  agree();
  is_finished_ = true;
}

void SafetensorsWriter::attempt(const std::function<void()>& call) {
  if (!failure_.empty()) return;
  try {
    call();
  } catch (const Error& error) {
    failure_ = error.what();
  }
}

void SafetensorsWriter::agree() {
  const auto failed = ranks_.sum(failure_.empty() ? 0 : 1);
  if (failed == 0) return;
  remove_partial();
  if (!failure_.empty()) fail(ExitCode::kCheckpoint, "{}", failure_);
  fail(ExitCode::kCheckpoint, "{}: was not written: {} other {} failed; what was there is unchanged", path_, failed,
       failed == 1 ? "rank" : "ranks");
}

void SafetensorsWriter::remove_partial() const {
  if (ranks_.rank == 0) ::unlink(partial_.c_str());
}

std::vector<Box> boxes_to_write(const mesh::Layout& layout, const mesh::DeviceMesh& mesh,
                                const std::vector<std::int64_t>& coordinates, const Shape& shape) {
  TESSERA_CHECK(layout.partial.empty(), "a partial tensor cannot be saved");
  std::vector<bool> is_split(coordinates.size(), false);
  for (const auto& axes : layout.dims)
    for (const auto axis : axes) is_split.at(static_cast<std::size_t>(axis)) = true;
  for (std::size_t axis = 0; axis < coordinates.size(); ++axis)
    if (!is_split[axis] && coordinates[axis] != 0) return {};
  return mesh::owned(layout, mesh, coordinates, shape);
}

}  // namespace tessera::checkpoint
