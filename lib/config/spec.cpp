#include "config/spec.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "config/fields.h"
#include "config/overrides.h"
#include "config/sections.h"

namespace tessera::config {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxName = 100;

std::string absolute_text(const fs::path& path) {
  std::error_code error;
  const auto result = fs::absolute(path, error);
  if (error) fail(ExitCode::kConfig, "{}: no absolute path: {}", path.string(), error.message());
  return result.lexically_normal().string();
}

void refuse_bad_path(const std::string& path, const SourcePos& pos, const std::string& what) {
  if (path.empty()) fail_at(pos, ExitCode::kConfig, "{} must be a path, found ''", what);
  if (path.find('\0') != std::string::npos) fail_at(pos, ExitCode::kConfig, "{} has a zero byte", what);
}

// Products of two of them can be counted.
const Check kCount = positive | below(1e9);

struct FitFields {
  std::int64_t epochs = 0, batch_size = 0, validation_freq = 0, skip_non_finite = 0;
  bool shuffle = true;
  std::string remainder;
  std::optional<std::int64_t> steps_per_epoch, validation_steps;
};

Section<FitSpec> read_fit(const Node& node) {
  const Fields<FitFields> table("fit",
                                {
                                    field("epochs", &FitFields::epochs, 1, kCount),
                                    field("batch_size", &FitFields::batch_size, 32, kCount),
                                    field("shuffle", &FitFields::shuffle, true),
                                    field("remainder", &FitFields::remainder, "pad", one_of({"pad", "drop", "error"})),
                                    field("steps_per_epoch", &FitFields::steps_per_epoch, std::nullopt, kCount),
                                    field("validation_steps", &FitFields::validation_steps, std::nullopt, kCount),
                                    field("validation_freq", &FitFields::validation_freq, 1, kCount),
                                    field("skip_non_finite", &FitFields::skip_non_finite, 0, non_negative | below(1e9)),
                                });
  if (!node.is_null()) require_section_keys(node, "fit");
  const auto given = table.read(node, node.pos);
  using Remainder = FitSpec::Remainder;
  FitSpec fit;
  fit.epochs = given.epochs;
  fit.batch_size = given.batch_size;
  fit.shuffle = given.shuffle;
  fit.remainder = given.remainder == "pad"    ? Remainder::kPad
                  : given.remainder == "drop" ? Remainder::kDrop
                                              : Remainder::kError;
  fit.steps_per_epoch = given.steps_per_epoch.value_or(0);
  fit.validation_steps = given.validation_steps.value_or(0);
  fit.validation_freq = given.validation_freq;
  fit.skip_non_finite = given.skip_non_finite;
  fit.pos = node.pos;
  return {fit, table.with_defaults(node)};
}

std::vector<Constructor> read_metrics(const Node* node, const std::string& what) {
  std::vector<Constructor> metrics;
  if (node == nullptr || node->is_null()) return metrics;
  if (!node->is_sequence())
    fail_at(node->pos, ExitCode::kConfig, "{} must be a list, as in [accuracy], found {}", what, describe(*node));
  for (const auto& item : node->items) metrics.push_back(as_constructor(item, "an entry of " + what));
  return metrics;
}

CompileSpec read_compile(const Node& node) {
  require_section_keys(node, "compile");
  CompileSpec compile;
  for (const auto* key : {"optimizer", "loss"})
    if (node.find(key) == nullptr) fail_at(node.pos, ExitCode::kConfig, "compile needs '{}'", key);
  compile.optimizer = as_constructor(*node.find("optimizer"), "optimizer");
  compile.loss = as_constructor(*node.find("loss"), "loss");
  compile.metrics = read_metrics(node.find("metrics"), "metrics");
  compile.weighted_metrics = read_metrics(node.find("weighted_metrics"), "weighted_metrics");
  compile.present = true;
  return compile;
}

Node compile_node(const Node& given) {
  Node node;
  Node no_metrics;
  no_metrics.kind = Node::Kind::kSequence;
  for (const auto* key : {"optimizer", "loss", "metrics", "weighted_metrics"}) {
    const Node* value = given.find(key);
    add_entry(node, key, value != nullptr && !value->is_null() ? *value : no_metrics);
  }
  return node;
}

void read_npy(const Node& node, const ModelSpec& model, const std::string& folder, const std::string& what,
              DataSpec& data) {
  std::vector<std::string> known;
  for (const auto& input : model.inputs) known.push_back(input.name);
  known.insert(known.end(), {"y", "sample_weight"});
  require_keys(node, known, what + ".npy");
  for (const auto& entry : node.entries) {
    data.npy[entry.key] = absolute_path(entry.value, fmt::format("the file of '{}'", entry.key), folder);
    data.npy_pos[entry.key] = entry.value.pos;
  }
  for (const auto& input : model.inputs)
    if (!data.npy.contains(input.name))
      fail_at(node.pos, ExitCode::kConfig, "{} has no file for the input '{}'", what, input.name);
}

DataSpec read_data(const Node& node, const ModelSpec& model, const std::string& folder, const std::string& what) {
  require_keys(node, {"npy", "random"}, what);
  if (node.entries.size() > 1)
    fail_at(node.entries[1].pos, ExitCode::kConfig, "{} has 'npy' and 'random'; only one of them can be given", what);
  if (node.entries.empty())
    fail_at(node.pos, ExitCode::kConfig, "{} needs {{npy: {{x: FILE, y: FILE}}}} or {{random: {{samples: N}}}}", what);
  DataSpec data;
  data.pos = node.pos;
  if (const Node* npy = node.find("npy")) read_npy(*npy, model, folder, what, data);
  if (const Node* random = node.find("random")) {
    require_keys(*random, {"samples"}, what + ".random");
    const Node* samples = random->find("samples");
    if (samples == nullptr) fail_at(random->pos, ExitCode::kConfig, "{}.random needs 'samples'", what);
    data.random_samples = samples->as_int("samples");
    if (data.random_samples < 1 || data.random_samples > std::int64_t{1} << 48)
      fail_at(samples->pos, ExitCode::kConfig, "samples must be positive and at most 2^48, found {}",
              data.random_samples);
  }
  return data;
}

Node data_node(const std::map<std::string, DataSpec>& data) {
  Node node;
  node.kind = Node::Kind::kMap;
  for (const auto& [name, part] : data) {
    Node inner;
    for (const auto& [key, file] : part.npy) add_entry(inner, key, text_node(file));
    if (part.npy.empty()) add_entry(inner, "samples", int_node(part.random_samples));
    Node source;
    add_entry(source, part.npy.empty() ? "random" : "npy", std::move(inner));
    add_entry(node, name, std::move(source));
  }
  return node;
}

/// A profile's name, or a file, which has a dot or slash in it.
std::string read_hardware(const Node& node, const std::string& folder) {
  const auto text = node.as_text("hardware");
  return text.find_first_of("./") == std::string::npos ? text : absolute_path(node, "hardware", folder);
}

std::string read_device(const Node& node) {
  auto device = node.as_text("device");
  if (device != "auto" && device != "cpu" && device != "cuda")
    fail_at(node.pos, ExitCode::kConfig, "device must be auto, cpu or cuda, found '{}'{}", device,
            device == "gpu" ? "; did you mean 'cuda'?" : "");
  return device;
}

Spec::MatmulPrecision read_matmul_precision(const Node& node) {
  const auto text = node.as_text("matmul_precision");
  if (text == "float32") return Spec::MatmulPrecision::kFloat32;
  if (text == "tensorfloat32") return Spec::MatmulPrecision::kTensorFloat32;
  fail_at(node.pos, ExitCode::kConfig, "matmul_precision must be float32 or tensorfloat32, found '{}'",
          shortened(text));
}

/// It becomes a folder's name.
void check_run_name(const std::string& name, const SourcePos& pos) {
  const bool has_control = std::any_of(name.begin(), name.end(), [](unsigned char c) { return c < 0x20; });
  if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos || has_control ||
      name.size() > kMaxName)
    fail_at(pos, ExitCode::kConfig, "name must be usable as a folder's name, found '{}'", shortened(name));
}

void read_top(const Node& root, const std::string& folder, Spec& spec) {
  if (const Node* version = root.find("version"); version != nullptr && version->as_int("version") != 1)
    fail_at(version->pos, ExitCode::kConfig, "version must be 1, found {}", version->text);
  if (const Node* name = root.find("name")) {
    spec.name = name->as_text("name");
    check_run_name(spec.name, name->pos);
  } else {
    spec.name = fs::path(spec.file).stem().string();
    check_run_name(spec.name, {spec.file, 0, 0});
  }
  if (const Node* seed = root.find("seed")) {
    const auto value = seed->as_int("seed");
    if (value < 0) fail_at(seed->pos, ExitCode::kConfig, "seed must be at least 0, found {}", value);
    spec.seed = static_cast<std::uint64_t>(value);
  }
  if (const Node* output_dir = root.find("output_dir")) {
    spec.output_dir = output_dir->as_text("output_dir");
    refuse_bad_path(spec.output_dir, output_dir->pos, "output_dir");
  }
  if (const Node* device = root.find("device")) {
    spec.device = read_device(*device);
    spec.device_pos = device->pos;
  }
  if (const Node* graphs = root.find("cuda_graphs")) {
    spec.cuda_graphs = graphs->as_bool("cuda_graphs");
    spec.cuda_graphs_pos = graphs->pos;
  }
  if (const Node* precision = root.find("matmul_precision")) spec.matmul_precision = read_matmul_precision(*precision);
  if (const Node* hardware = root.find("hardware"); hardware != nullptr && !hardware->is_null()) {
    spec.hardware = read_hardware(*hardware, folder);
    spec.hardware_pos = hardware->pos;
  }
}

}  // namespace

std::string absolute_path(const Node& node, const std::string& what, const std::string& folder) {
  const auto path = node.as_text(what);
  refuse_bad_path(path, node.pos, what);
  return absolute_text(fs::path(folder) / path);
}

void check_name(const std::string& name, const SourcePos& pos, const std::string& what) {
  constexpr auto kAllowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
  if (name.size() > kMaxName)
    fail_at(pos, ExitCode::kConfig, "{} has {} characters; at most {} are allowed", what, name.size(), kMaxName);
  if (name.empty() || name.find_first_not_of(kAllowed) != std::string::npos)
    fail_at(pos, ExitCode::kConfig, "{} may have letters, digits, '_', '.' and '-', found '{}'", what, shortened(name));
}

std::string checked_name(const Node& node, const std::string& what) {
  auto name = node.as_text(what);
  check_name(name, node.pos, what);
  return name;
}

Spec parse_spec(const std::string& text, const std::string& file, const std::vector<std::string>& overrides) {
  auto root = parse(text, file);
  for (const auto& override_text : overrides) apply_override(root, override_text);
  require_section_keys(root, kTop);
  Spec spec;
  spec.file = file;
  spec.pos = root.pos;
  const auto folder = fs::path(file).parent_path().string();
  const auto section = [&](const char* key) {
    Node absent;
    absent.pos = {file, 0, 0};
    const Node* node = root.find(key);
    return node != nullptr ? *node : absent;
  };
  read_top(root, folder, spec);

  if (root.find("model") == nullptr) fail_at(root.pos, ExitCode::kConfig, "the config needs 'model'");
  auto model = read_model(section("model"), folder);
  auto distribution = read_distribution(section("distribution"));
  auto fit = read_fit(section("fit"));
  const auto compile = section("compile");
  if (!compile.is_null()) spec.compile = read_compile(compile);
  const auto data = section("data");
  if (!data.is_null()) {
    require_section_keys(data, "data");
    for (const auto& entry : data.entries)
      if (!entry.value.is_null())
        spec.data[entry.key] = read_data(entry.value, model.spec, folder, "data." + entry.key);
  }
  Node checkpoint_resolved;
  if (const auto checkpoint = section("checkpoint"); !checkpoint.is_null()) {
    auto read = read_checkpoint(checkpoint);
    spec.checkpoint = read.spec;
    checkpoint_resolved = std::move(read.resolved);
  }
  if (const auto resume = section("resume"); !resume.is_null()) spec.resume = read_resume(resume);
  spec.model = std::move(model.spec);
  spec.distribution = std::move(distribution.spec);
  spec.fit = fit.spec;
  if (spec.fit.skip_non_finite > 0 && spec.distribution.micro_batches > 1)
    fail_at(spec.fit.pos, ExitCode::kConfig,
            "fit.skip_non_finite does not go with distribution.micro_batches > 1: their gradients are summed together "
            "with the update");

  Node resolved;
  add_entry(resolved, "version", int_node(1));
  add_entry(resolved, "name", text_node(spec.name));
  add_entry(resolved, "seed", int_node(static_cast<std::int64_t>(spec.seed)));
  add_entry(resolved, "output_dir", text_node(absolute_text(spec.output_dir)));
  add_entry(resolved, "device", text_node(spec.device));
  add_entry(resolved, "cuda_graphs", bool_node(spec.cuda_graphs));
  add_entry(resolved, "matmul_precision",
            text_node(spec.matmul_precision == Spec::MatmulPrecision::kFloat32 ? "float32" : "tensorfloat32"));
  if (!spec.hardware.empty()) add_entry(resolved, "hardware", text_node(spec.hardware));
  add_entry(resolved, "model", std::move(model.resolved));
  add_entry(resolved, "distribution", std::move(distribution.resolved));
  if (spec.compile.present) add_entry(resolved, "compile", compile_node(compile));
  if (!spec.data.empty()) add_entry(resolved, "data", data_node(spec.data));
  add_entry(resolved, "fit", std::move(fit.resolved));
  if (spec.checkpoint.present) add_entry(resolved, "checkpoint", std::move(checkpoint_resolved));
  if (spec.resume.partial) {
    Node resume;
    add_entry(resume, "partial", bool_node(true));
    add_entry(resolved, "resume", std::move(resume));
  }
  spec.resolved = to_yaml(resolved);
  return spec;
}

std::string read_text(const std::string& file) {
  std::error_code error;
  if (fs::is_directory(file, error)) fail(ExitCode::kConfig, "{}: is a folder, expected a YAML file", file);
  std::ifstream stream(file, std::ios::binary);
  if (!stream) fail(ExitCode::kConfig, "{}: cannot be opened: {}", file, std::generic_category().message(errno));
  std::ostringstream text;
  text << stream.rdbuf();
  if (stream.bad()) fail(ExitCode::kConfig, "{}: cannot be read: {}", file, std::generic_category().message(errno));
  return text.str();
}

}  // namespace tessera::config
