#include "report/observers.h"

namespace tessera::report {

void Observers::begin(const train::BeginEvent& event) {
  for (auto& o : all_) o->begin(event);
}
void Observers::epoch_begin(std::int64_t epoch) {
  for (auto& o : all_) o->epoch_begin(epoch);
}
void Observers::step(const train::StepEvent& event) {
  for (auto& o : all_) o->step(event);
}
void Observers::evaluate(const std::string& on, const train::Logs& logs) {
  for (auto& o : all_) o->evaluate(on, logs);
}
void Observers::epoch(std::int64_t epoch, const train::Logs& logs) {
  for (auto& o : all_) o->epoch(epoch, logs);
}
void Observers::checkpoint(const train::CheckpointEvent& event) {
  for (auto& o : all_) o->checkpoint(event);
}
void Observers::warning(const std::string& sentence) {
  for (auto& o : all_) o->warning(sentence);
}
void Observers::end(const train::EndEvent& event) {
  for (auto& o : all_) o->end(event);
}

}  // namespace tessera::report
