#include "train/feed.h"

#include <algorithm>

#include "data/loader.h"
#include "train/agree.h"
#include "train/data_files.h"

namespace tessera::train {
namespace {

/// For random data: below what a whole number must stay, by the ops that read the input. 0: any number will do.
std::int64_t bound_of(const graph::Graph& graph, int input) {
  for (const auto& node : graph.nodes()) {
    if (node.kind != graph::NodeKind::kOp) continue;
    const auto it = std::find(node.args.begin(), node.args.end(), input);
    if (it == node.args.end()) continue;
    const auto& first = graph.node(node.args[0]).shape();
    if (node.op->name == "embedding") return first[0];
    if (node.op->name.starts_with("sparse")) return first.back();
    const auto loss = node.attributes.get_or("loss", std::string(node.op->name));
    if (loss == "binary_crossentropy" || loss == "categorical_crossentropy") return 2;
  }
  return 0;
}

constexpr auto kWeight = "sample_weight";

}  // namespace

std::vector<data::Field> fields_of(const graph::Graph& graph, const config::DataSpec& data) {
  std::vector<data::Field> fields;
  for (const auto& node : graph.nodes()) {
    if (node.kind != graph::NodeKind::kInput) continue;
    if (node.name == kWeight && !data.npy.empty() && !data.npy.contains(kWeight)) continue;
    auto bound = bound_of(graph, node.id);
    if (bound == 0 && !is_float(node.dtype())) bound = 2;
    fields.push_back({node.name, Shape(node.shape().begin() + 1, node.shape().end()), node.dtype(), bound});
  }
  return fields;
}

struct Feed::Impl {
  std::unique_ptr<data::Dataset> dataset;
  std::unique_ptr<data::Loader> loader;
  std::vector<void*> destinations;
  /// Sample weights that the data have not: the staging memory is shared by the programs, so they are written every
  /// time.
  float* weights = nullptr;
  std::int64_t weight_count = 0;
};

Feed::Feed(Session& session, const std::string& program, const std::string& on, const FeedOptions& options)
    : impl_(new Impl) {
  const auto& spec = session.spec();
  const auto& graph = session.planning().models.at(program).main;
  if (const auto data = spec.data.find(on); data != spec.data.end()) require_equal_files(session.world(), data->second);
  agree(session.world(), [&] {
    const auto data = spec.data.find(on);
    if (data == spec.data.end())
      fail_at(spec.pos, ExitCode::kConfig, "there is no `data: {}:`; say where its rows are", on);
    const auto fields = fields_of(graph, data->second);
    const auto has = [&](const std::string& key) {
      return std::any_of(fields.begin(), fields.end(), [&](const auto& f) { return f.key == key; });
    };
    if (graph.find(kWeight) >= 0 && !has(kWeight)) {
      impl_->weights = static_cast<float*>(session.executor().input(program, kWeight));
      impl_->weight_count = elements(session.executor().input_value(program, kWeight).local);
    }
    impl_->dataset = std::make_unique<data::Dataset>(data->second, fields, spec.seed);

    const auto& planned = session.plan().programs.at(program);
    std::vector<data::LoaderInput> inputs;
    for (const auto& field : fields) {
      const auto& value = session.executor().input_value(program, field.key);  // (micro-batches, rows, ...)
      data::LoaderInput input{field.key, Shape(value.shape.begin() + 1, value.shape.end()), value.layout};
      input.shape[0] *= planned.micro_batches;
      input.layout.dims.erase(input.layout.dims.begin());
      inputs.push_back(std::move(input));
      impl_->destinations.push_back(session.executor().input(program, field.key));
    }
    data::LoaderOptions loader;
    loader.schedule = {.batch_size = spec.fit.batch_size,
                       .remainder = options.every_row ? config::FitSpec::Remainder::kPad : spec.fit.remainder,
                       .steps_per_epoch = options.steps_per_epoch,
                       .restart = options.restart,
                       .pos = spec.fit.pos};
    loader.batch_rows = planned.batch_rows;
    loader.micro_batches = planned.micro_batches;
    loader.shuffle = options.shuffle;
    loader.seed = spec.seed;
    loader.memory = session.executor().prefetch_memory(program);
    impl_->loader = std::make_unique<data::Loader>(*impl_->dataset, session.plan().mesh, session.world().rank(),
                                                   std::move(inputs), loader);
    const auto planned_bytes = std::ssize(loader.memory), held = impl_->loader->held_bytes();
    TESSERA_CHECK(held == planned_bytes || (impl_->weights != nullptr && held < planned_bytes),
                  "the loader of {} holds {} bytes, not the planned {}", program, held, planned_bytes);
  });
}

Feed::~Feed() = default;

std::int64_t Feed::samples() const { return impl_->dataset->samples(); }
std::int64_t Feed::steps(std::int64_t epoch) const { return impl_->loader->schedule().steps(epoch); }
bool Feed::cut_short(std::int64_t epoch) const { return impl_->loader->schedule().cut_short(epoch); }

std::int64_t Feed::fill(std::int64_t epoch, std::int64_t step) {
  std::fill_n(impl_->weights, impl_->weight_count, 1.0F);
  return impl_->loader->load(epoch, step, impl_->destinations).rows;
}

}  // namespace tessera::train
