#include "train/evaluate.h"

#include "train/agree.h"

namespace tessera::train {

Logs evaluate(Session& session, Feed& feed) {
  session.reset_metrics("evaluate");
  double weighted_loss = 0, rows = 0;
  for (std::int64_t step = 0; step < feed.steps(0); ++step) {
    device::StepParams params;
    or_end_job(session.world(), [&] {
      params.real_rows = feed.fill(0, step);
      session.executor().run("evaluate", "", params);
    });
    const auto real_rows = static_cast<double>(params.real_rows);
    weighted_loss += session.loss("evaluate") * real_rows;
    rows += real_rows;
  }
  auto logs = session.metrics("evaluate");
  logs["loss"] = rows == 0 ? 0 : weighted_loss / rows;
  return logs;
}

}  // namespace tessera::train
