#include "train/resume.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>

#include "checkpoint/folders.h"
#include "core/checksum.h"
#include "core/text.h"
#include "train/agree.h"
#include "train/saved_state.h"

namespace tessera::train {
namespace {

using checkpoint::Contents;

constexpr std::size_t kMostListed = 10;

/// Checksums of this rank's part of every tensor, in alphabetical order.
std::vector<std::uint64_t> sums_of_part(const Contents& contents, const checkpoint::Manifest& manifest,
                                        std::int64_t rank, std::int64_t ranks) {
  constexpr std::int64_t kBufferBytes = 4 << 20;
  std::vector<std::byte> buffer(kBufferBytes);
  std::vector<std::uint64_t> sums;
  for (const auto& [name, entry] : manifest.tensors) {
    const auto& tensor = contents.files_of(name).at(name);
    const auto item = size_of(tensor.dtype), count = elements(tensor.shape);
    const auto end = count * (rank + 1) / ranks;
    auto& sum = sums.emplace_back(0);
    for (auto first = count * rank / ranks; first < end;) {
      const auto part = std::min(kBufferBytes / item, end - first);
      contents.files_of(name).read_elements(name, first, part, buffer.data());
      sum += checksum(buffer.data(), part, item, first);
      first += part;
    }
  }
  return sums;
}

/// Throws on all ranks what is wrong with a checkpoint. All have the manifest that rank 0 reads.
checkpoint::Manifest checked_manifest(comm::World& world, const std::string& folder) {
  std::string text;
  agree(world, [&] {
    if (world.rank() == 0) text = checkpoint::read_manifest_text(folder);
  });
  text = world.broadcast(text, 0);
  checkpoint::Manifest manifest;
  std::vector<std::uint64_t> sums;
  agree(world, [&] {
    manifest = checkpoint::parse_manifest(text, folder + "/manifest.json");
    const Contents contents(folder);
    contents.require(manifest);
    sums = sums_of_part(contents, manifest, world.rank(), world.size());
  });
  const auto all = world.gather({reinterpret_cast<const char*>(sums.data()), sums.size() * sizeof sums[0]});
  std::size_t t = 0;
  for (const auto& [name, entry] : manifest.tensors) {
    std::uint64_t whole = 0, part = 0;
    for (const auto& text_of_rank : all) {
      std::memcpy(&part, text_of_rank.data() + t * sizeof part, sizeof part);
      whole += part;
    }
    if (whole != entry.checksum)
      fail(ExitCode::kCheckpoint, "{}: tensor '{}' is damaged: its checksum is {}, saved was {}", folder, name,
           checksum_text(whole), checksum_text(entry.checksum));
    ++t;
  }
  return manifest;
}

std::string shortened_list(std::vector<std::string> list) {
  const auto more = list.size() > kMostListed ? list.size() - kMostListed : 0;
  list.resize(list.size() - more);
  return join(list, "; ") + (more > 0 ? fmt::format("; and {} more", more) : "");
}

bool is_metric(const partition::StateBuffer& state) { return state.variable.role == graph::VariableRole::kMetric; }

/// What a checkpoint and the model do not have in common.
std::vector<std::string> differences(const partition::Plan& plan, const Contents& contents,
                                     std::set<std::string>& common) {
  std::vector<std::string> list;
  std::set<std::string> own;
  for (const auto& state : plan.state) {
    const auto& path = state.variable.path;
    own.insert(path);
    if (is_metric(state)) continue;  // sums over an epoch, looked at when they are read
    if (!contents.has(path)) {
      list.push_back(fmt::format("'{}' is not in the checkpoint", path));
      continue;
    }
    const auto& stored = contents.files_of(path).at(path);
    if (stored.shape == state.shape && stored.dtype == state.dtype) {
      common.insert(path);
    } else {
      list.push_back(fmt::format("'{}' is {} in the checkpoint and {} here", path, checkpoint::form_of(stored),
                                 checkpoint::form_of(saved_tensor(plan, state))));
    }
  }
  // Of f64 are metrics alone, and another run may have other ones.
  for (const auto& tensor : contents.tensors())
    if (tensor.dtype != DType::kF64 && !own.contains(tensor.name))
      list.push_back(fmt::format("'{}' of the checkpoint is not in the model or its optimizer", tensor.name));
  return list;
}

/// The lines of one key of a resolved config.
std::string section_of(const std::string& resolved, const std::string& key) {
  const auto begin = ("\n" + resolved).find("\n" + key + ":");
  if (begin == std::string::npos) return "";
  auto end = begin;
  do end = resolved.find('\n', end + 1);
  while (end != std::string::npos && end + 1 < resolved.size() &&
         (resolved[end + 1] == ' ' || resolved[end + 1] == '-'));
  return resolved.substr(begin, end == std::string::npos ? end : end - begin);
}

std::vector<std::string> order_differences(const std::map<std::string, std::string>& saved,
                                           const std::map<std::string, std::string>& here) {
  std::vector<std::string> list;
  for (const auto& [key, value] : here) {
    const auto it = saved.find(key);
    const auto before = it == saved.end() ? std::string("not known") : it->second;
    if (before != value) list.push_back(fmt::format("{} was {} and is {}", key, before, value));
  }
  return list;
}

void load_state(Session& session, const partition::StateBuffer& state, const checkpoint::TensorFiles& files) {
  const auto& mesh = session.plan().mesh;
  const auto& path = state.variable.path;
  const auto box = mesh::owned(state.layout, mesh, mesh.coordinates(session.world().rank()), state.shape).front();
  std::vector<std::byte> host;
  for_each_piece(box, state.dtype, [&](const Box& piece, std::int64_t offset) {
    const auto bytes = elements(piece.size) * size_of(state.dtype);
    host.resize(static_cast<std::size_t>(bytes));
    files.read_box(path, piece, host.data(), state.dtype);
    session.executor().write_state(path, offset, bytes, host.data());
  });
}

/// The own row where the ranks are as many as they were; else rank 0 takes all sums. False if they were not saved.
bool load_metric(Session& session, const partition::StateBuffer& state, const Contents& contents, std::int64_t rows) {
  const auto& path = state.variable.path;
  const auto count = elements(state.shape);
  auto wanted = saved_tensor(session.plan(), state);
  wanted.shape[0] = rows;
  if (!contents.has(path)) return false;
  const auto& stored = contents.files_of(path).at(path);
  if (stored.shape != wanted.shape || stored.dtype != wanted.dtype) return false;
  std::vector<double> sums(static_cast<std::size_t>(count)), row(sums);
  const auto rank = session.world().rank();
  const bool same = rows == session.world().size();
  for (std::int64_t r = 0; r < rows; ++r) {
    if (same ? r != rank : rank != 0) continue;
    contents.files_of(path).read_elements(path, r * count, count, row.data());
    for (std::size_t k = 0; k < sums.size(); ++k) sums[k] += row[k];
  }
  session.executor().write_state(path, sums.data());
  return true;
}

}  // namespace

std::optional<Found> find_checkpoint(comm::World& world, const std::string& parent, const std::string& resume) {
  if (resume == "never") return std::nullopt;
  if (resume != "auto") return Found{resume, checked_manifest(world, resume), {}};
  std::string listed;
  agree(world, [&] {
    if (world.rank() == 0)
      for (const auto& folder : checkpoint::finished_folders(parent)) listed += folder.path + '\n';
  });
  std::vector<std::string> skipped;
  listed = world.broadcast(listed, 0);
  for (std::size_t begin = 0, end = 0; (end = listed.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const auto folder = listed.substr(begin, end - begin);
    try {
      auto manifest = checked_manifest(world, folder);
      if (checkpoint::folder_of_step(parent, manifest.position.steps) != folder)
        fail(ExitCode::kCheckpoint, "{}: is of step {}, which is not what its name says", folder,
             manifest.position.steps);
      return Found{folder, std::move(manifest), std::move(skipped)};
    } catch (const Error& error) {
      if (error.code() != ExitCode::kCheckpoint) throw;
      skipped.push_back(error.what());
    }
  }
  if (!skipped.empty())
    fail(ExitCode::kCheckpoint, "no checkpoint in {} is whole: {}. --resume never starts anew and removes them", parent,
         shortened_list(skipped));
  return std::nullopt;
}

void require_whole(comm::World& world, const std::string& path) {
  std::error_code error;
  const bool saved = std::filesystem::exists(std::filesystem::path(path) / "DONE", error);
  if (world.broadcast(saved ? "1" : "0", 0) == "1") (void)checked_manifest(world, path);
}

std::map<std::string, std::string> data_order(const config::Spec& spec, std::int64_t samples) {
  const auto& fit = spec.fit;
  using Remainder = config::FitSpec::Remainder;
  return {{"seed", std::to_string(spec.seed)},
          {"fit.batch_size", std::to_string(fit.batch_size)},
          {"fit.shuffle", fit.shuffle ? "true" : "false"},
          {"fit.remainder", fit.remainder == Remainder::kPad    ? "pad"
                            : fit.remainder == Remainder::kDrop ? "drop"
                                                                : "error"},
          {"fit.steps_per_epoch", std::to_string(fit.steps_per_epoch)},
          {"samples of data.train", std::to_string(samples)}};
}

checkpoint::Position restore(Session& session, const Found& found, const std::map<std::string, std::string>& order,
                             std::vector<std::string>& warnings) {
  auto position = found.manifest.position;
  const bool partial = session.spec().resume.partial;
  std::vector<std::string> told;
  agree(session.world(), [&] {
    const Contents contents(found.folder);
    std::set<std::string> common;
    auto list = differences(session.plan(), contents, common);
    const auto order_list = order_differences(found.manifest.order, order);
    list.insert(list.end(), order_list.begin(), order_list.end());
    if (!list.empty() && !partial)
      fail(ExitCode::kCheckpoint,
           "{} is of another run: {}. `resume: {{partial: true}}` takes what fits; --resume never starts anew",
           found.folder, shortened_list(list));
    std::size_t loaded = 0;
    for (const auto& state : session.plan().state) {
      if (is_metric(state) && list.empty() && !load_metric(session, state, contents, found.manifest.ranks) &&
          position.step_in_epoch > 0)
        told.push_back(fmt::format("'{}' is not in {}: of this epoch it knows the steps from here on alone",
                                   state.variable.path, found.folder));
      if (!common.contains(state.variable.path)) continue;
      // Of another model or other data the weights are a start; where that run stood, and its moments, mean nothing.
      if (!list.empty() && state.variable.role != graph::VariableRole::kWeight) continue;
      load_state(session, state, contents.files_of(state.variable.path));
      ++loaded;
    }
    for (auto& sentence : list) told.push_back(found.folder + ": " + sentence);
    for (const auto* key : {"model", "compile"})
      if (list.empty() && section_of(found.manifest.config, key) != section_of(session.spec().resolved, key))
        told.push_back(
            fmt::format("`{}:` is not written as it was when {} was saved; the run goes on with what it says now", key,
                        found.folder));
    if (list.empty() && position.epoch > session.spec().fit.epochs)
      told.push_back(fmt::format("{} stands in epoch {}, beyond fit.epochs: nothing is trained", found.folder,
                                 position.epoch + 1));
    if (list.empty()) return;
    position = {};
    told.push_back(fmt::format("training starts anew, with {} variables of {}", loaded, found.folder));
  });
  warnings.insert(warnings.end(), told.begin(), told.end());
  return position;
}

}  // namespace tessera::train
