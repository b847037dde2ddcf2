#include "data/schedule.h"

#include <algorithm>

#include "core/error.h"

namespace tessera::data {

using Remainder = config::FitSpec::Remainder;

Schedule::Schedule(std::int64_t samples, const Options& options)
    : samples_(samples),
      batch_size_(options.batch_size),
      batches_((samples + options.batch_size - 1) / options.batch_size),
      steps_per_epoch_(options.steps_per_epoch),
      epochs_per_pass_(1),
      restart_(options.restart) {
  const auto rest = samples % batch_size_;
  if (samples < 1) fail_at(options.pos, ExitCode::kData, "the dataset has no samples; give at least one");
  if (options.remainder == Remainder::kError && rest != 0)
    fail_at(options.pos, ExitCode::kData,
            "remainder is error, and {} samples in batches of {} leave {}; set remainder to pad or drop, or change "
            "batch_size",
            samples, batch_size_, rest);
  if (options.remainder == Remainder::kDrop) batches_ = samples / batch_size_;
  if (batches_ == 0)
    fail_at(
        options.pos, ExitCode::kData,
        "remainder is drop, and {} samples don't fill one batch of {}; set remainder to pad or a smaller batch_size",
        samples, batch_size_);
  if (steps_per_epoch_ > 0 && !restart_) epochs_per_pass_ = (batches_ + steps_per_epoch_ - 1) / steps_per_epoch_;
}

std::int64_t Schedule::epoch_start(std::int64_t epoch) const { return epoch % epochs_per_pass_ * steps_per_epoch_; }

std::int64_t Schedule::steps(std::int64_t epoch) const {
  const auto left = batches_ - epoch_start(epoch);
  return steps_per_epoch_ > 0 ? std::min(steps_per_epoch_, left) : left;
}

BatchRange Schedule::batch(std::int64_t epoch, std::int64_t step) const {
  TESSERA_CHECK(step >= 0 && step < steps(epoch), "step {} of {} in epoch {}", step, steps(epoch), epoch);
  const auto first = (epoch_start(epoch) + step) * batch_size_;
  return {restart_ ? 0 : epoch / epochs_per_pass_, first, std::min(batch_size_, samples_ - first)};
}

bool Schedule::cut_short(std::int64_t epoch) const { return steps(epoch) < steps_per_epoch_; }

}  // namespace tessera::data
