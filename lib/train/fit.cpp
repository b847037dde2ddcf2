#include "train/fit.h"

#include <chrono>
#include <cmath>
#include <memory>

#include "train/agree.h"
#include "train/evaluate.h"
#include "train/feed.h"

namespace tessera::train {
namespace {

constexpr std::int64_t kReplicaCheckSteps = 1000;

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

bool all_finite(const runtime::Executor& executor, const partition::StateBuffer& state) {
  std::vector<float> part(std::size_t{1} << 18);
  const auto chunk = static_cast<std::int64_t>(part.size() * sizeof(float));
  for (std::int64_t at = 0; at < state.bytes; at += chunk) {
    const auto bytes = std::min(chunk, state.bytes - at);
    executor.read_state(state.variable.path, at, bytes, part.data());
    for (std::int64_t k = 0; k < bytes / static_cast<std::int64_t>(sizeof(float)); ++k)
      if (!std::isfinite(part[static_cast<std::size_t>(k)])) return false;
  }
  return true;
}

/// The first weight in the order of the plan that has a value that is not finite on any rank; "" if none has.
std::string first_bad_variable(Session& session) {
  for (const auto& state : session.plan().state) {
    if (state.variable.role != graph::VariableRole::kWeight || state.dtype != DType::kF32) continue;
    if (session.world().any(!all_finite(session.executor(), state))) return state.variable.path;
  }
  return "";
}

/// The first input of the program whose batch in hand has a value that is not finite on any rank; "" if none has.
std::string first_bad_input(Session& session, const std::string& program) {
  const auto& planned = session.plan().programs.at(program);
  for (const int index : planned.inputs) {
    const auto& value = planned.values[static_cast<std::size_t>(index)];
    if (value.dtype != DType::kF32) continue;
    const auto* batch = static_cast<const float*>(session.executor().input(program, value.name));
    const auto count = value.bytes / static_cast<std::int64_t>(sizeof(float));
    if (session.world().any(!std::all_of(batch, batch + count, [](float x) { return std::isfinite(x); })))
      return value.name;
  }
  return "";
}

}  // namespace

class Training::Loop {
 public:
  explicit Loop(Session& session)
      : session_(session),
        fit_(session.spec().fit),
        optimizer_(layers::optimizer_info(session.spec())),
        train_(session, "train", "train", {.shuffle = fit_.shuffle, .steps_per_epoch = fit_.steps_per_epoch}) {
    if (session.spec().data.contains("validation") && session.has_program("evaluate"))
      validation_ = std::make_unique<Feed>(
          session, "evaluate", "validation",
          FeedOptions{.steps_per_epoch = fit_.validation_steps, .restart = true, .every_row = true});
  }

  std::int64_t samples() const { return train_.samples(); }
  void start_at(const checkpoint::Position& position) {
    if (position.epoch < fit_.epochs && position.step_in_epoch > train_.steps(position.epoch))
      fail(ExitCode::kCheckpoint, "the checkpoint stands at step {} of epoch {}, which has {}", position.step_in_epoch,
           position.epoch + 1, train_.steps(position.epoch));
    at_ = position;
    result_.steps = position.steps;
  }

  FitResult run(Observer& observer, Checkpoints* checkpoints, const std::function<bool()>& stop) {
    observer_ = &observer;
    checkpoints_ = checkpoints;
    stop_ = &stop;
    tell([&] { observer_->begin({fit_.epochs, train_.steps(0), fit_.batch_size, train_.samples()}); });
    step_end_ = seconds_now();
    while (at_.epoch < fit_.epochs && !result_.interrupted) run_epoch();
    save_last_checkpoint();
    if (!result_.interrupted)
      for (const auto& [weight, average] : optimizer_.averages) session_.executor().assign_state(weight, average);
    auto end = session_.end_event(result_.steps);
    end.interrupted = result_.interrupted;
    tell([&] { observer_->end(end); });
    return result_;
  }

 private:
  void run_epoch() {
    const auto epoch = at_.epoch;
    if (at_.step_in_epoch == 0) session_.reset_metrics("train");
    tell([&] { observer_->epoch_begin(epoch); });
    while (at_.step_in_epoch < train_.steps(epoch) && !result_.interrupted) run_step();
    if (result_.interrupted) return;
    if (train_.cut_short(epoch))
      tell([&] {
        observer_->warning(fmt::format("the training data ended after {} of the {} steps_per_epoch of epoch {}",
                                       train_.steps(epoch), fit_.steps_per_epoch, epoch + 1));
      });
    auto logs = session_.metrics("train");
    logs["loss"] = at_.rows == 0 ? 0 : at_.weighted_loss / at_.rows;
    if (validation_ && (epoch + 1) % fit_.validation_freq == 0) {
      const auto validation = train::evaluate(session_, *validation_);
      tell([&] { observer_->evaluate("validation", validation); });
      for (const auto& [name, value] : validation) logs["val_" + name] = value;
    }
    tell([&] { observer_->epoch(epoch, logs); });
    at_ = {.steps = result_.steps, .epoch = epoch + 1, .skipped = at_.skipped};
  }

  // With EMA the weights are saved as they were trained; what replaces them at the end is a variable too.
  void save_last_checkpoint() {
    if (checkpoints_ == nullptr || !(result_.interrupted || session_.spec().checkpoint.present)) return;
    try {
      checkpoints_->save_now(at_);
    } catch (const Error& error) {
      if (error.code() != ExitCode::kCheckpoint) throw;
      result_.save_failure = error.what();
    }
  }

  // What fails in an observer (a full disk on rank 0) ends the job.
  template <typename Event>
  void tell(const Event& event) {
    or_end_job(session_.world(), event);
  }

  void run_step() {
    const auto calls = result_.steps - at_.skipped;  // of the optimizer, before this one
    device::StepParams params;
    params.step = result_.steps + 1;
    params.iteration = calls / optimizer_.accumulation_steps;
    params.learning_rate = optimizer_.learning_rate(calls);
    const bool apply = (calls + 1) % optimizer_.accumulation_steps == 0;
    bool updated = true;
    or_end_job(session_.world(), [&] {
      params.real_rows = train_.fill(at_.epoch, at_.step_in_epoch);
      const auto* epilogue = apply ? "apply" : "accumulate";
      if (fit_.skip_non_finite == 0) {
        session_.executor().run("train", epilogue, params);
        return;
      }
      const auto sums = session_.metric_sums("train");  // a step that is left out leaves them as they were
      updated = session_.executor().run_if("train", epilogue, params, [&] { return may_update(); });
      if (!updated) session_.set_metric_sums("train", sums);
    });
    ++result_.steps;

    StepEvent event{.epoch = at_.epoch, .step = params.step, .step_in_epoch = at_.step_in_epoch + 1};
    event.learning_rate = params.learning_rate;
    or_end_job(session_.world(), [&] {
      event.loss = session_.loss("train");
      if (const auto squared = session_.report("train", "grad_norm_squared"); apply && updated && squared)
        event.grad_norm = std::sqrt(*squared);
    });
    const auto now = seconds_now();
    event.step_ms = (now - step_end_) * 1e3;
    event.samples_per_s = static_cast<double>(params.real_rows) / (now - step_end_);
    step_end_ = now;
    tell([&] { observer_->step(event); });
    at_.steps = result_.steps;
    ++at_.step_in_epoch;
    if (updated) {
      check_finite(event);
      skipped_in_a_row_ = 0;
      at_.weighted_loss += event.loss * static_cast<double>(params.real_rows);
      at_.rows += static_cast<double>(params.real_rows);
    } else {
      ++at_.skipped;
      tell([&] {
        observer_->warning(
            fmt::format("step {} has no update: its gradients are not finite ({} of at most {} in a row)", event.step,
                        ++skipped_in_a_row_, fit_.skip_non_finite));
      });
    }
    or_end_job(session_.world(), [&] {
      if (params.step % kReplicaCheckSteps == 0) session_.executor().check_replicas();
      if (checkpoints_ != nullptr && session_.spec().checkpoint.present) checkpoints_->step_done(at_);
      result_.interrupted = session_.world().any((*stop_)());
    });
  }

  /// Collective, between the two halves of a step. One that is not finite and may not be left out is found behind it.
  bool may_update() {
    if (skipped_in_a_row_ >= fit_.skip_non_finite) return true;
    const bool finite = std::isfinite(session_.loss("train")) && session_.executor().gradients_are_finite("train");
    return !session_.world().any(!finite);
  }

  // Loss and norm are the same bits on all ranks, so all come to the same conclusion.
  void check_finite(const StepEvent& event) {
    const bool finite = std::isfinite(event.loss) && std::isfinite(event.grad_norm.value_or(0));
    if (finite) return;
    if (checkpoints_ != nullptr) checkpoints_->finish_in_hand();  // of a step before
    const auto* what = std::isfinite(event.loss) ? "gradient norm" : "loss";
    if (const auto key = first_bad_input(session_, "train"); !key.empty())
      fail(ExitCode::kNotFinite, "step {}: the {} is not finite, and neither is '{}' in the data of this batch",
           event.step, what, key);
    const auto bad = first_bad_variable(session_);
    fail(ExitCode::kNotFinite,
         "step {}: the {} is not finite; {}. A smaller learning_rate or a global_clipnorm may help; "
         "--nan-search names the first value that is not finite",
         event.step, what,
         bad.empty() ? "all variables are finite" : "the first variable that isn't either is '" + bad + "'");
  }

  Session& session_;
  const config::FitSpec& fit_;
  Observer* observer_ = nullptr;
  Checkpoints* checkpoints_ = nullptr;
  const std::function<bool()>* stop_ = nullptr;
  layers::OptimizerInfo optimizer_;
  Feed train_;
  std::unique_ptr<Feed> validation_;
  FitResult result_;
  checkpoint::Position at_;
  std::int64_t skipped_in_a_row_ = 0;
  double step_end_ = 0;
};

Training::Training(Session& session) : loop_(std::make_unique<Loop>(session)) {}
Training::~Training() = default;

std::int64_t Training::samples() const { return loop_->samples(); }

void Training::start_at(const checkpoint::Position& position) { loop_->start_at(position); }

FitResult Training::run(Observer& observer, Checkpoints* checkpoints, const std::function<bool()>& stop) {
  return loop_->run(observer, checkpoints, stop);
}

FitResult fit(Session& session, Observer& observer, const std::function<bool()>& stop) {
  return Training(session).run(observer, nullptr, stop);
}

}  // namespace tessera::train
