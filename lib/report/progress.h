#pragma once

#include <cstdio>
#include <string>

#include "train/observer.h"

namespace tessera::report {

/// Training on the console: a bar that moves on a terminal; elsewhere a line an epoch, and one every ten seconds of a
/// long epoch. Lives on rank 0.
class Progress final : public train::Observer {
 public:
  explicit Progress(std::FILE* to);

  void begin(const train::BeginEvent& event) override;
  void epoch_begin(std::int64_t epoch) override;
  void step(const train::StepEvent& event) override;
  void epoch(std::int64_t epoch, const train::Logs& logs) override;
  void checkpoint(const train::CheckpointEvent& event) override;
  void warning(const std::string& sentence) override;
  void end(const train::EndEvent& event) override;

 private:
  void clear_bar();

  std::FILE* to_;
  bool terminal_;
  bool bar_shown_ = false;
  train::BeginEvent run_;
  double epoch_start_ = 0, last_print_ = 0;
  double milliseconds_ = 0;  // of the epoch's steps, without the first of the run
  std::int64_t steps_ = 0, timed_steps_ = 0;
};

/// "accuracy 0.9531  loss 0.1702  val_loss 0.2141"
std::string logs_line(const train::Logs& logs);

}  // namespace tessera::report
