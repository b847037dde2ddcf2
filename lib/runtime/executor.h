#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "device/device.h"
#include "partition/program.h"

namespace tessera::runtime {

struct ExecutorOptions {
  bool comm_thread = false;  // run the communication stream on a thread of its own
  double time_limit_s = 120;  // after which a waiting rank names what did not come
};

/// Runs the programs of a plan on a device with communicators. Everything is allocated and prepared in the constructor; a
/// step allocates nothing.
class Executor {
 public:
  Executor(const partition::Plan& plan, device::Device& device, comm::World& world, const ExecutorOptions& options);
  ~Executor();

  /// Fills every variable's own shard from its initializer.
  void initialise_state();

  /// Host memory of an input for the whole batch: the own part, micro-batch-major. The loader writes here.
  void* input(const std::string& program, const std::string& name);
  const partition::ProgramValue& input_value(const std::string& program, const std::string& name) const;

  /// prologue, body for each micro-batch, epilogue ("" where there is none).
  void run(const std::string& program, const std::string& epilogue, const device::StepParams& params);

  /// Copies of local parts, for prints, checkpoints and verify. `name`: an output of the program; a path; a gradient's path.
  void read_output(const std::string& program, const std::string& name, void* host) const;
  void read_state(const std::string& path, void* host) const;
  void write_state(const std::string& path, const void* host);
  void read_gradient(const std::string& program, const std::string& path, void* host) const;

  /// Bytes that each pool was allocated with.
  std::int64_t pool_bytes(partition::Pool pool) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera::runtime
