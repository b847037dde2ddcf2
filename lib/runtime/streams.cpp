#include "runtime/streams.h"

#include <limits>
#include <utility>

namespace tessera::runtime {
namespace {

struct Cancelled {};  // thrown in a stream whose partner has failed

}  // namespace

Streams::Streams() : thread_([this] { loop(); }) {}

Streams::~Streams() {
  stop_ = true;
  ++started_;
  started_.notify_one();
  thread_.join();
}

void Streams::run(const std::function<void()>& compute, const std::function<void()>& communicate) {
  progress_[0] = progress_[1] = 0;
  job_ = &communicate;
  const auto job = ++started_;
  started_.notify_one();
  try {
    compute();
  } catch (const Cancelled&) {
  } catch (...) {
    fail(std::current_exception());
  }
  for (auto ended = ended_.load(); ended != job; ended = ended_.load()) ended_.wait(ended);
  if (!failed_) return;
  failed_ = false;
  std::rethrow_exception(std::exchange(error_, nullptr));
}

void Streams::advance(int stream) {
  ++progress_[stream];
  progress_[stream].notify_one();
}

void Streams::wait_for(int stream, std::int64_t count) {
  for (auto now = progress_[stream].load(); now < count; now = progress_[stream].load()) progress_[stream].wait(now);
  if (failed_) throw Cancelled{};
}

void Streams::loop() {
  for (std::uint32_t seen = 0;;) {
    started_.wait(seen);
    if (started_.load() == seen) continue;
    ++seen;
    if (stop_) return;
    try {
      (*job_)();
    } catch (const Cancelled&) {
    } catch (...) {
      fail(std::current_exception());
    }
    ++ended_;
    ended_.notify_one();
  }
}

void Streams::fail(std::exception_ptr error) {
  {
    const std::lock_guard lock(error_mutex_);
    if (!error_) error_ = std::move(error);
  }
  failed_ = true;
  for (auto& progress : progress_) {
    progress = std::numeric_limits<std::int64_t>::max() / 2;
    progress.notify_all();
  }
}

}  // namespace tessera::runtime
