#pragma once

#include <cstdint>

#include "config/spec.h"

namespace tessera::data {

/// One batch: positions first .. first + rows - 1 of a pass over the dataset.
struct BatchRange {
  std::int64_t pass = 0;
  std::int64_t first = 0;
  std::int64_t rows = 0;  // real ones: at most batch_size

  bool operator==(const BatchRange&) const = default;
};

/// Which rows form which batch. A pass is once through the dataset, an epoch what `fit` reports.
/// Without steps_per_epoch an epoch is a pass. With it, as in Keras, an epoch takes that many batches and the next one
/// goes on where it ended; the epoch that meets the end of the pass is shorter, and the one after it starts a new pass.
/// `restart` (evaluate): every epoch starts at the first batch.
class Schedule {
 public:
  struct Options {
    std::int64_t batch_size = 32;
    config::FitSpec::Remainder remainder = config::FitSpec::Remainder::kPad;
    std::int64_t steps_per_epoch = 0;  // 0: all
    bool restart = false;
    SourcePos pos;  // of fit
  };

  /// Throws Error (data): no samples; a remainder that is an error; nothing left after dropping it.
  Schedule(std::int64_t samples, const Options& options);

  std::int64_t steps(std::int64_t epoch) const;
  BatchRange batch(std::int64_t epoch, std::int64_t step) const;
  /// Whether the data ran out before steps_per_epoch; worth a warning.
  bool cut_short(std::int64_t epoch) const;

 private:
  std::int64_t epoch_start(std::int64_t epoch) const;

  std::int64_t samples_, batch_size_, batches_, steps_per_epoch_, epochs_per_pass_;
  bool restart_;
};

}  // namespace tessera::data
