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
  const bool speaks = world.rank() == 0 && !options.json;
  const auto findings = train::examine(world, spec, [&](const train::Finding& f) {
    if (!speaks) return;
    std::cout << fmt::format("{:8} {}: {}{}\n", to_string(f.level), f.subject, f.sentence,
                             f.fix.empty() ? "" : "\n         -> " + f.fix)
              << std::flush;
  });
  const bool sound = std::none_of(findings.begin(), findings.end(),
                                  [](const auto& finding) { return finding.level == train::Finding::Level::kFailure; });
  const auto code = sound ? ExitCode::kDone : ExitCode::kConfig;
  if (world.rank() != 0 || !options.json) return code;
  auto json = nlohmann::ordered_json::array();
  for (const auto& f : findings)
    json.push_back({{"level", to_string(f.level)}, {"subject", f.subject}, {"sentence", f.sentence}, {"fix", f.fix}});
  std::cout << json.dump(2) << '\n';
  return code;
}

}  // namespace tessera::trainer
