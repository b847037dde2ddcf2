#include "train/weights.h"

#include "checkpoint/shards.h"
#include "checkpoint/writer.h"
#include "core/placed.h"
#include "train/agree.h"
#include "train/resume.h"
#include "train/saved_state.h"

namespace tessera::train {
namespace {

std::vector<const partition::StateBuffer*> weights_of(const partition::Plan& plan) {
  std::vector<const partition::StateBuffer*> weights;
  for (const auto& state : plan.state)
    if (state.variable.role == graph::VariableRole::kWeight) weights.push_back(&state);
  return weights;
}

std::vector<checkpoint::TensorSpec> tensor_specs(const partition::Plan& plan) {
  std::vector<checkpoint::TensorSpec> specs;
  for (const auto* weight : weights_of(plan)) specs.push_back({weight->variable.path, weight->dtype, weight->shape});
  return specs;
}

}  // namespace

std::vector<std::string> load_weights(comm::World& world, runtime::Executor& executor, const std::string& file,
                                      const SourcePos& pos) {
  placed(pos, [&] { require_whole(world, file); });
  std::vector<std::string> unused;
  const auto load = [&] {
    const checkpoint::TensorFiles reader(file);
    unused = reader.require(tensor_specs(executor.plan()));
    const auto& mesh = executor.plan().mesh;
    const auto coordinates = mesh.coordinates(world.rank());
    std::vector<std::byte> host;
    for (const auto* weight : weights_of(executor.plan())) {
      const auto box = mesh::owned(weight->layout, mesh, coordinates, weight->shape).front();
      for_each_piece(box, weight->dtype, [&](const Box& piece, std::int64_t offset) {
        const auto bytes = elements(piece.size) * size_of(weight->dtype);
        host.resize(static_cast<std::size_t>(bytes));
        reader.read_box(weight->variable.path, piece, host.data(), weight->dtype);
        executor.write_state(weight->variable.path, offset, bytes, host.data());
      });
    }
  };
  agree(world, [&] { placed(pos, load); });
  return unused;
}

void check_weights(const partition::Plan& plan, const std::string& file, const SourcePos& pos) {
  placed(pos, [&] { checkpoint::TensorFiles(file).require(tensor_specs(plan)); });
}

void save_weights(comm::World& world, runtime::Executor& executor, const std::string& file) {
  checkpoint::Ranks ranks;
  ranks.rank = world.rank();
  ranks.sum = [&](std::int64_t value) {
    std::int64_t sum = 0;
    for (const auto& text : world.gather(std::to_string(value))) sum += std::stoll(text);
    return sum;
  };
  checkpoint::SafetensorsWriter writer(file, tensor_specs(executor.plan()), ranks);
  const auto& mesh = executor.plan().mesh;
  const auto coordinates = mesh.coordinates(world.rank());
  std::vector<std::byte> host;
  for (const auto* weight : weights_of(executor.plan()))
    for (const auto& box : checkpoint::boxes_to_write(weight->layout, mesh, coordinates, weight->shape))
      for_each_piece(box, weight->dtype, [&](const Box& piece, std::int64_t offset) {
        const auto bytes = elements(piece.size) * size_of(weight->dtype);
        host.resize(static_cast<std::size_t>(bytes));
        executor.read_state(weight->variable.path, offset, bytes, host.data());
        writer.write_box(weight->variable.path, piece, host.data());
      });
  writer.finish();
}

}  // namespace tessera::train
