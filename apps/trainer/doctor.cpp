#include "train/doctor.h"

#include <algorithm>
#include <iostream>

#include <nlohmann/json.hpp>

#include "job.h"
#include "verbs.h"

namespace tessera::trainer {

ExitCode doctor(const Options& options, comm::World& world) {
  std::optional<config::Spec> spec;
  if (!options.config.empty()) spec = load_spec(options, world);
  const auto findings = train::examine(world, spec);
  const bool sound = std::none_of(findings.begin(), findings.end(),
                                  [](const auto& finding) { return finding.level == train::Finding::Level::kFailure; });
  const auto code = sound ? ExitCode::kDone : ExitCode::kConfig;
  if (world.rank() != 0) return code;
  if (options.json) {
    auto json = nlohmann::ordered_json::array();
    for (const auto& f : findings)
      json.push_back({{"level", to_string(f.level)}, {"subject", f.subject}, {"sentence", f.sentence}, {"fix", f.fix}});
    std::cout << json.dump(2) << '\n';
    return code;
  }
  for (const auto& f : findings)
    std::cout << fmt::format("{:8} {}: {}{}\n", to_string(f.level), f.subject, f.sentence,
                             f.fix.empty() ? "" : "\n         -> " + f.fix);
  return code;
}

}  // namespace tessera::trainer
