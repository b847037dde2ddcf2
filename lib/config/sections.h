#pragma once

#include <string>

#include "config/spec.h"

namespace tessera::config {

/// What one section of the text means, and the same with every default filled in.
template <typename T>
struct Section {
  T spec;
  Node resolved;
};

inline constexpr auto kTop = "the config";

/// Refuses what is not a mapping and keys that the section (kTop, "model", "distribution", "ModelParallel", "compile",
/// "data", "fit") does not have: with the section where the key belongs, else as require_keys.
void require_section_keys(const Node& map, const std::string& section);

/// Relative paths lie in the folder of the YAML.
std::string absolute_path(const Node& node, const std::string& what, const std::string& folder);

/// A name that becomes a part of a variable's path: letters, digits, _ . -, at most 100 characters.
std::string checked_name(const Node& node, const std::string& what);
void check_name(const std::string& name, const SourcePos& pos, const std::string& what);

Section<ModelSpec> read_model(const Node& node, const std::string& folder);

/// `node` may be null: DataParallel over all ranks.
Section<DistributionSpec> read_distribution(const Node& node);

Section<CheckpointSpec> read_checkpoint(const Node& node);
ResumeSpec read_resume(const Node& node);

}  // namespace tessera::config
