#include "options.h"

#include <charconv>
#include <filesystem>
#include <iostream>

#include <CLI/CLI.hpp>

#include "core/error.h"
#include "core/text.h"
#include "verbs.h"

namespace tessera::trainer {
namespace {

const std::vector<std::string> kVerbs{"train",    "plan",    "advise",  "validate", "verify",
                                      "evaluate", "predict", "devices", "doctor",   "schema"};

bool is_verb(const std::string& word) { return std::find(kVerbs.begin(), kVerbs.end(), word) != kVerbs.end(); }

/// `trainer config.yaml` is `trainer train config.yaml`. A word that is neither a verb nor a file is a misspelled verb.
void insert_default_verb(std::vector<std::string>& words) {
  if (words.empty()) return;
  const auto& first = words.front();
  if (is_verb(first) || first == "--help" || first == "-h" || first == "--version") return;
  const bool like_a_file = first.find_first_of("./") != std::string::npos || std::filesystem::exists(first);
  if (first[0] != '-' && !like_a_file)
    fail(ExitCode::kConfig, "'{}' is neither a verb ({}) nor a config file{}", first, join(kVerbs),
         did_you_mean(first, kVerbs));
  words.insert(words.begin(), "train");
}

CLI::Validator positive() {
  return {[](std::string& text) {
            std::int64_t value = 0;
            const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
            const bool whole = error == std::errc() && end == text.data() + text.size();
            return whole && value > 0 ? "" : "must be a positive whole number, found '" + text + "'";
          },
          "POSITIVE"};
}

void add_options(CLI::App& verb, const std::string& name, Options& o) {
  if (name != "devices" && name != "schema") {
    verb.add_option("CONFIG", o.config, "the YAML file")->required(name != "doctor");
    verb.add_option("--set", o.overrides, "KEY=VALUE, over what the file says; may be repeated")
        ->allow_extra_args(false);
  }
  if (name == "plan" || name == "advise" || name == "validate")
    verb.add_option("--ranks", o.ranks, "plan for this number of ranks")->check(positive());
  if (name != "train" && name != "validate" && name != "schema" && name != "predict")
    verb.add_flag("--json", o.json, "print JSON to standard output");
  if (name == "plan") verb.add_flag("--explain", o.explain, "say for each collective what was chosen and rejected");
  if (name == "advise" || name == "devices") verb.add_flag("--measure", o.measure, "measure instead of predicting");
  if (name == "train")
    verb.add_option("--resume", o.resume,
                    "auto: from the newest checkpoint of the run; never: anew; or a checkpoint's folder");
  if (name == "train") verb.add_flag("--profile", o.profile, "print where the time went, by layer and instruction");
  if (name == "train")
    verb.add_flag("--nan-search", o.nan_search,
                  "look at every value of every step; name what first is not finite (slow)");
  if (name == "verify") verb.add_option("--steps", o.steps, "training steps to compare")->check(positive());
  if (name == "evaluate" || name == "predict") {
    verb.add_option("--weights", o.weights, "a safetensors file");
    verb.add_option("--data", o.data, "train, validation or test")
        ->check(CLI::IsMember({"train", "validation", "test"}));
  }
  if (name == "devices") verb.add_option("--type", o.type, "gpu or cpu")->check(CLI::IsMember({"gpu", "cpu"}));
  if (name == "train" || name == "verify" || name == "evaluate" || name == "predict" || name == "advise")
    verb.add_flag("--allow-mixed", o.allow_mixed, "ranks on different processors or libraries");
  if (name == "train" || name == "verify" || name == "evaluate" || name == "predict")
    verb.add_option("--timeout", o.timeout_s,
                    "seconds after which a rank that waits ends the job and names whom it misses")
        ->check(positive());
}

std::string about(const std::string& verb) {
  if (verb == "train") return "train the model (the default verb)";
  if (verb == "plan") return "show memory, communication and predicted time for any number of ranks";
  if (verb == "advise") return "the simplest distribution that fits, and what others would gain";
  if (verb == "validate") return "find everything that can be wrong without training";
  if (verb == "verify") return "compare this mesh with one device";
  if (verb == "evaluate") return "loss and metrics on a dataset";
  if (verb == "predict") return "write the outputs of the model as .npy files";
  if (verb == "devices") return "list the devices of the job";
  if (verb == "doctor") return "look for what makes runs on this node or job fail or slow, and say how to mend it";
  return "list layers, losses, metrics and optimizers with their arguments";
}

/// For the first word that its verb doesn't take.
[[noreturn]] void fail_unexpected(const CLI::App& app) {
  for (const auto* verb : app.get_subcommands()) {
    const auto words = verb->remaining();
    if (words.empty()) continue;
    std::vector<std::string> known;
    for (const auto* option : verb->get_options())
      for (const auto& name : option->get_lnames()) known.push_back("--" + name);
    fail(ExitCode::kConfig, "{} does not take '{}'{}; `trainer {} --help` lists its options", verb->get_name(),
         words[0], did_you_mean(words[0], known), verb->get_name());
  }
  fail(ExitCode::kConfig, "'{}' was not expected; `trainer --help` lists verbs and options",
       join(app.remaining(), " "));
}

}  // namespace

std::optional<Options> parse_options(int argc, char** argv, bool speak) {
  std::vector<std::string> words(argv + 1, argv + argc);
  insert_default_verb(words);

  Options options;
  CLI::App app("Trains a Keras-style model on a device mesh: mpirun -np 2 trainer config.yaml", "trainer");
  app.require_subcommand(1);
  bool version = false;
  app.add_flag_callback(
      "--version",
      [&] {
        version = true;
        throw CLI::Success();
      },
      "versions of the trainer, MPI and oneDNN");
  for (const auto& name : kVerbs) {
    auto* verb = app.add_subcommand(name, about(name));
    add_options(*verb, name, options);
    verb->callback([&options, name] { options.verb = name; });
  }
  try {
    std::vector<std::string> reversed(words.rbegin(), words.rend());  // as CLI11 takes them
    app.parse(reversed);
  } catch (const CLI::Success& success) {
    if (speak && version) print_version();
    if (speak && !version) app.exit(success, std::cout, std::cerr);
    return std::nullopt;
  } catch (const CLI::ExtrasError&) {
    fail_unexpected(app);
  } catch (const CLI::ParseError& error) {
    fail(ExitCode::kConfig, "{}; `trainer --help` lists verbs and options", error.what());
  }
  return options;
}

}  // namespace tessera::trainer
