#pragma once

#include <vector>

#include "train/observer.h"

namespace tessera::test {

/// What a fit said.
struct History final : train::Observer {
  std::vector<double> batch_losses;  // of all epochs, each before its update
  std::vector<train::Logs> history;  // by epoch: Keras's History

  void step(const train::StepEvent& event) override { batch_losses.push_back(event.loss); }
  void epoch(std::int64_t, const train::Logs& logs) override { history.push_back(logs); }
};

}  // namespace tessera::test
