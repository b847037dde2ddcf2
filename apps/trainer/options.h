#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tessera::trainer {

/// The command line. Which options a verb takes is in options.cpp.
struct Options {
  std::string verb = "train";
  std::string config;
  std::vector<std::string> overrides;  // --set fit.epochs=1
  std::int64_t ranks = 0;              // 0: as launched, or as the mesh says
  std::int64_t steps = 3;              // of verify
  std::int64_t timeout_s = 120;        // how long a rank waits for another
  std::string weights;
  std::string resume = "auto";  // or "never", or a checkpoint's folder
  std::string data;             // "": validation, else train
  std::string type;             // devices: "", "gpu", "cpu"
  bool json = false, explain = false, measure = false, allow_mixed = false, profile = false, nan_search = false;
};

/// Throws Error (config) with a sentence for what is not understood. nullopt: help or version was asked for; if
/// `speak`, it was printed.
std::optional<Options> parse_options(int argc, char** argv, bool speak);

}  // namespace tessera::trainer
