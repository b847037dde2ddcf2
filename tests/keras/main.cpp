// Runs every case of Keras's golden data in TESSERA_REFERENCE_DIR; the last line counts them. Arguments name kinds.
#include <algorithm>
#include <iostream>

#include "keras/golden.h"

int main(int argc, char** argv) {
  using namespace tessera::keras;
  const std::vector<std::string> wanted(argv + 1, argv + argc);
  const std::pair<const char*, void (*)(Tally&)> kinds[] = {{"layers", run_layers},
                                                            {"losses", run_losses},
                                                            {"metrics", run_metrics},
                                                            {"optimizers", run_optimizers},
                                                            {"schedules", run_schedules},
                                                            {"initializers", run_initializers},
                                                            {"runs", run_runs}};
  try {
    Tally tally;
    for (const auto& [name, run] : kinds)
      if (wanted.empty() || std::find(wanted.begin(), wanted.end(), name) != wanted.end()) run(tally);
    return tally.finish() ? 0 : 1;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
