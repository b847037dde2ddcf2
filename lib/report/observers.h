#pragma once

#include <memory>
#include <vector>

#include "train/observer.h"

namespace tessera::report {

/// Hands every event on to several observers, in order.
class Observers final : public train::Observer {
 public:
  void add(std::unique_ptr<train::Observer> observer) { all_.push_back(std::move(observer)); }

  void begin(const train::BeginEvent& event) override;
  void epoch_begin(std::int64_t epoch) override;
  void step(const train::StepEvent& event) override;
  void evaluate(const std::string& on, const train::Logs& logs) override;
  void epoch(std::int64_t epoch, const train::Logs& logs) override;
  void checkpoint(const train::CheckpointEvent& event) override;
  void warning(const std::string& sentence) override;
  void end(const train::EndEvent& event) override;

 private:
  std::vector<std::unique_ptr<train::Observer>> all_;
};

}  // namespace tessera::report
