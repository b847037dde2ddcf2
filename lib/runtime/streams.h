#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace tessera::runtime {

/// How far each of two streams has come, and the thread that runs the second one. Nothing here allocates after the
/// constructor; waits sleep in the kernel (futex) because ranks may share cores.
class Streams {
 public:
  Streams();
  ~Streams();
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  /// Runs `compute` on the calling thread and `communicate` on the other one, and returns when both have ended. If one
  /// throws, the waits of the other throw too, and the first exception is rethrown here.
  void run(const std::function<void()>& compute, const std::function<void()>& communicate);

  /// Progress of a stream (0: compute, 1: communication) in instructions ended since run() began.
  void advance(int stream);
  void wait_for(int stream, std::int64_t count);

 private:
  void loop();
  void fail(std::exception_ptr error);

  std::atomic<std::int64_t> progress_[2]{0, 0};
  std::atomic<bool> failed_{false};
  std::mutex error_mutex_;
  std::exception_ptr error_;

  const std::function<void()>* job_ = nullptr;
  std::atomic<std::uint32_t> started_{0}, ended_{0};  // jobs
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace tessera::runtime
