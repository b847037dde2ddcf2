#include "train/predict.h"

#include <algorithm>
#include <filesystem>

#include "train/agree.h"
#include "train/npy_writer.h"

namespace tessera::train {
namespace {

/// One output of the model on its way to a file.
struct OutputFile {
  std::string name, file;
  Shape batch_shape;  // (padded rows, ...)
  Shape shape;        // (samples, ...)
  DType dtype;
  Box own;             // of a batch
  bool writes = true;  // of the ranks that hold the same box the first one writes
  std::vector<std::byte> values;
  std::unique_ptr<NpyWriter> writer;

  void write(std::int64_t first_row, std::int64_t real_rows) {
    auto box = own;
    box.size[0] = std::clamp<std::int64_t>(real_rows - own.start[0], 0, own.size[0]);
    box.start[0] += first_row;
    if (writes) writer->write(box, values.data());
  }
};

bool is_first_holder(const mesh::Layout& layout, const mesh::DeviceMesh& mesh, std::int64_t rank) {
  auto coordinates = mesh.coordinates(rank);
  for (const auto& dim : layout.dims)
    for (const auto axis : dim) coordinates[static_cast<std::size_t>(axis)] = 0;
  return std::all_of(coordinates.begin(), coordinates.end(), [](std::int64_t c) { return c == 0; });
}

std::vector<OutputFile> output_files(Session& session, std::int64_t samples, const std::string& folder) {
  std::vector<OutputFile> files;
  const auto& program = session.plan().programs.at("predict");
  const auto& mesh = session.plan().mesh;
  const auto rank = session.world().rank();
  for (const auto& output : program.outputs) {
    if (output.kind != graph::GraphOutput::Kind::kPrediction) continue;
    const auto& value = program.values[static_cast<std::size_t>(output.value)];
    OutputFile file;
    file.name = output.name;
    file.file = (std::filesystem::path(folder) / (output.name + ".npy")).string();
    file.batch_shape = value.shape;
    file.shape = value.shape;
    file.shape[0] = samples;
    file.dtype = value.dtype;
    file.own = mesh::owned(value.layout, mesh, mesh.coordinates(rank), value.shape).front();
    file.writes = is_first_holder(value.layout, mesh, rank);
    file.values.resize(static_cast<std::size_t>(value.bytes));
    files.push_back(std::move(file));
  }
  return files;
}

}  // namespace

std::vector<std::string> predict(Session& session, Feed& feed, const std::string& folder) {
  auto& world = session.world();
  auto files = output_files(session, feed.samples(), folder);
  agree(world, [&] {
    if (world.rank() != 0) return;
    for (const auto& file : files) NpyWriter::create(file.file, file.shape, file.dtype);
  });
  agree(world, [&] {
    for (auto& file : files) file.writer = std::make_unique<NpyWriter>(file.file, file.shape, file.dtype);
  });
  std::int64_t first_row = 0;
  or_end_job(world, [&] {
    for (std::int64_t step = 0; step < feed.steps(0); ++step) {
      device::StepParams params;
      params.real_rows = feed.fill(0, step);
      session.executor().run("predict", "", params);
      for (auto& file : files) {
        session.executor().read_output("predict", file.name, file.values.data());
        file.write(first_row, params.real_rows);
      }
      first_row += params.real_rows;
    }
  });
  agree(world, [&] {
    for (auto& file : files) file.writer->sync();
  });
  std::vector<std::string> names;
  for (const auto& file : files) names.push_back(file.file);
  agree(world, [&] {
    if (world.rank() != 0) return;
    for (const auto& name : names) NpyWriter::commit(name);
  });
  return names;
}

}  // namespace tessera::train
