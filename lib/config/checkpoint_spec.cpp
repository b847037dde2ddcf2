#include "config/fields.h"
#include "config/sections.h"

namespace tessera::config {
namespace {

struct CheckpointFields {
  std::optional<std::int64_t> every_steps;
  std::optional<double> every_minutes, mb_per_s;
  std::int64_t keep = 0;
};

}  // namespace

Section<CheckpointSpec> read_checkpoint(const Node& node) {
  static const Fields<CheckpointFields> kTable(
      "checkpoint", {
                        field("every_steps", &CheckpointFields::every_steps, std::nullopt, positive),
                        field("every_minutes", &CheckpointFields::every_minutes, std::nullopt, positive),
                        field("keep", &CheckpointFields::keep, 3, positive),
                        field("mb_per_s", &CheckpointFields::mb_per_s, std::nullopt, positive),
                    });
  require_section_keys(node, "checkpoint");
  const auto given = kTable.read(node, node.pos);
  if (!given.every_steps && !given.every_minutes)
    fail_at(node.pos, ExitCode::kConfig, "checkpoint needs every_steps or every_minutes, or both");
  return {{.present = true,
           .every_steps = given.every_steps.value_or(0),
           .every_minutes = given.every_minutes.value_or(0),
           .keep = given.keep,
           .mb_per_s = given.mb_per_s.value_or(0),
           .pos = node.pos},
          kTable.with_defaults(node)};
}

ResumeSpec read_resume(const Node& node) {
  require_section_keys(node, "resume");
  ResumeSpec resume;
  if (const Node* partial = node.find("partial")) resume.partial = partial->as_bool("resume.partial");
  return resume;
}

}  // namespace tessera::config
