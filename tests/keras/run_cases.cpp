// Whole runs on 1, 2 and 4 ranks of threads, under DataParallel and under meshes whose layouts split every variable
// that divides: batch losses, epoch logs, evaluation and final weights.
#include <algorithm>
#include <mutex>

#include "comm/communicator.h"
#include "keras/golden.h"
#include "layers/layer.h"
#include "layers/loss.h"
#include "layers/metric.h"
#include "layers/optimizer.h"
#include "mesh/layout.h"
#include "support/history.h"
#include "support/test_device.h"
#include "train/evaluate.h"
#include "train/fit.h"

namespace tessera::keras {
namespace {

/// Which dimension of a variable is split over the axis `model`.
enum class Split : std::uint8_t { kNone, kLast, kFirst };

struct Mesh {
  int ranks = 1, batch = 1;
  Split split = Split::kNone;

  std::string name() const {
    if (split == Split::kNone) return fmt::format("DataParallel on {}", ranks);
    return fmt::format("mesh {} x {}, {} dimension", batch, ranks / batch, split == Split::kLast ? "last" : "first");
  }
};

const Mesh kMeshes[] = {{1, 1, Split::kNone}, {2, 2, Split::kNone},  {4, 4, Split::kNone}, {2, 1, Split::kLast},
                        {4, 2, Split::kLast}, {4, 2, Split::kFirst}, {4, 1, Split::kFirst}};

class Run {
 public:
  explicit Run(const std::string& name)
      : name_(name),
        config_(folder() + "/runs/" + name + "/config.yaml"),
        text_(config::read_text(config_)),
        expected_(read_json("runs/" + name + "/expected.json")),
        initial_(folder() + "/runs/" + name + "/initial.safetensors"),
        final_(folder() + "/runs/" + name + "/final.safetensors") {}

  std::optional<std::string> skip() const {
    const auto spec = config::parse_spec(text_, config_, {"device=cpu"});
    for (const auto& layer : spec.model.layers)
      if (layer.type != "Shared" && layers::layer_registry().find(layer.type) == nullptr) return "layer " + layer.type;
    if (layers::loss_registry().find(spec.compile.loss.name) == nullptr) return "loss " + spec.compile.loss.name;
    if (layers::optimizer_registry().find(spec.compile.optimizer.name) == nullptr)
      return "optimizer " + spec.compile.optimizer.name;
    for (const auto& metric : spec.compile.metrics)
      if (layers::metric_registry().find(metric.name) == nullptr) return "metric " + metric.name;
    return std::nullopt;
  }

  void run(Comparison& c, const Mesh& mesh) const {
    const auto spec =
        config::parse_spec(text_ + distribution(mesh), config_, {"device=" + test::device_of_threads(mesh.ranks)});
    std::mutex mutex;
    std::map<std::string, std::vector<float>> weights;
    comm::run_on_threads(mesh.ranks, [&](comm::World& world) {
      train::SessionOptions options;
      options.threads = 1;
      train::Session session(spec, world, options);
      test::History result;
      train::fit(session, result, [] { return false; });
      const std::string on = expected_["evaluate"]["on"];
      train::Feed feed(session, "evaluate", on, {.restart = true, .every_row = true});
      const auto evaluation = train::evaluate(session, feed);
      const std::lock_guard lock(mutex);
      if (world.rank() == 0) compare(c, result, evaluation, feed.samples());
      collect(session, world.rank(), weights);
    });
    for (const auto& [path, values] : weights) c.tensor("final " + path, values, read(final_, path), {1e-3, 1e-4});
  }

 private:
  std::string distribution(const Mesh& mesh) const {
    if (mesh.split == Split::kNone) return "\ndistribution: DataParallel\n";
    std::string text = fmt::format(
        "\ndistribution:\n  ModelParallel:\n    mesh: {{shape: [{}, {}], axis_names: [batch, model]}}\n    "
        "layout_map:\n",
        mesh.batch, mesh.ranks / mesh.batch);
    for (const auto& [path, tensor] : initial_.tensors()) {
      std::vector<std::string> dims(tensor.shape.size(), "null");
      if (!dims.empty()) (mesh.split == Split::kLast ? dims.back() : dims.front()) = "model";
      text += fmt::format("      {}: {{layout: [{}], if_indivisible: replicate}}\n", path, fmt::join(dims, ", "));
    }
    return text;
  }

  /// Accuracies may differ by one of `rows`, those of the evaluated data (or of the training data).
  void compare(Comparison& c, const test::History& result, const train::Logs& evaluation, std::int64_t rows) const {
    const std::int64_t trained = expected_["rows"];
    const auto& losses = expected_["batch_losses"];
    c.fact(fmt::format("{} steps, Keras has {}", result.batch_losses.size(), losses.size()),
           result.batch_losses.size() == losses.size());
    const auto first_epoch = expected_["batch_rows"].size();
    for (std::size_t i = 0; i < std::min(losses.size(), result.batch_losses.size()); ++i)
      c.scalar(fmt::format("loss of batch {}", i), result.batch_losses[i], losses[i],
               {i < first_epoch ? 1e-4 : 1e-3, 1e-7});
    for (std::size_t e = 0; e < result.history.size(); ++e)
      compare_logs(c, fmt::format("epoch {}: ", e), result.history[e], expected_["epoch_logs"][e],
                   std::min(rows, trained));
    compare_logs(c, "evaluate: ", evaluation, expected_["evaluate"], rows);
  }

  static void compare_logs(Comparison& c, const std::string& what, const train::Logs& found,
                           const nlohmann::json& expected, std::int64_t rows) {
    for (const auto& [key, value] : expected.items()) {
      if (!value.is_number()) continue;
      c.fact(what + "there is no " + key, found.contains(key));
      if (!found.contains(key)) continue;
      const bool counts = key.find("accuracy") != std::string::npos;
      c.scalar(what + key, found.at(key), value,
               counts ? Tolerance{1e-6, 1.0 / static_cast<double>(rows)} : Tolerance{1e-3, 1e-6});
    }
  }

  void collect(train::Session& session, int rank, std::map<std::string, std::vector<float>>& weights) const {
    const auto& plan = session.plan();
    for (const auto& s : plan.state) {
      if (s.variable.role != graph::VariableRole::kWeight) continue;
      std::vector<float> local(static_cast<std::size_t>(elements(s.local)));
      session.executor().read_state(s.variable.path, local.data());
      auto& global = weights[s.variable.path];
      global.resize(static_cast<std::size_t>(elements(s.shape)));
      const auto box = mesh::owned(s.layout, plan.mesh, plan.mesh.coordinates(rank), s.shape).front();
      const auto strides = strides_of(s.shape);
      auto index = box.start;
      for (const float value : local) {
        std::int64_t at = 0;
        for (std::size_t d = 0; d < index.size(); ++d) at += index[d] * strides[d];
        global[static_cast<std::size_t>(at)] = value;
        for (std::size_t d = index.size(); d-- > 0;) {
          if (++index[d] < box.start[d] + box.size[d]) break;
          index[d] = box.start[d];
        }
      }
    }
  }

  std::string name_, config_, text_;
  nlohmann::json expected_;
  checkpoint::SafetensorsReader initial_, final_;
};

}  // namespace

void run_runs(Tally& tally) {
  for (const auto& name : list("runs")) {
    const Run one(name);
    const auto skip = one.skip();
    for (const auto& mesh : kMeshes) {
      tally.run("runs/" + name + ", " + mesh.name(), skip, [&](Comparison& c) { one.run(c, mesh); });
      if (skip) break;
    }
  }
}

}  // namespace tessera::keras
