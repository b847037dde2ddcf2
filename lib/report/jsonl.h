#pragma once

#include <string>

#include "train/observer.h"

namespace tessera::report {

/// Writes metrics.jsonl: an event a line, each in the file when the call returns. Floats have all their digits; "nan",
/// "inf" and "-inf" are strings. A step's line is made without allocating.
class JsonlWriter final : public train::Observer {
 public:
  /// Replaces the file, or with `append` goes on at its end. Throws Error (data) if it can't be written.
  explicit JsonlWriter(const std::string& file, bool append = false);
  ~JsonlWriter() override;
  JsonlWriter(const JsonlWriter&) = delete;
  JsonlWriter& operator=(const JsonlWriter&) = delete;

  void step(const train::StepEvent& event) override;
  void evaluate(const std::string& on, const train::Logs& logs) override;
  void epoch(std::int64_t epoch, const train::Logs& logs) override;
  void checkpoint(const train::CheckpointEvent& event) override;
  void warning(const std::string& sentence) override;
  void end(const train::EndEvent& event) override;

 private:
  void write_line(const char* bytes, std::size_t count);

  std::string file_;
  int fd_ = -1;
};

/// Ends a metrics.jsonl behind the event of a step, or behind those of the epoch that ended with it: what a run wrote
/// after the checkpoint from which it goes on, and a line that was cut short, is gone. A file without that step keeps
/// its whole lines. Throws Error (data).
void cut_after_step(const std::string& file, std::int64_t step, bool epoch_ended);

}  // namespace tessera::report
