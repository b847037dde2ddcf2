#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "comm/communicator.h"
#include "device/device.h"
#include "partition/program.h"
#include "runtime/profiler.h"

namespace tessera::runtime {

struct ExecutorOptions {
  bool comm_thread = false;   // run the communication stream on a thread of its own
  double time_limit_s = 120;  // after which a waiting rank names what did not come
  bool profile = false;       // takes the time of every instruction
  bool nan_search = false;    // looks at all that an instruction has written: Error (not finite) names the first
  std::string tuning = {};    // implementations of kernels that a former run took, to be taken again
  bool graphs = false;        // replays a step that has been queued once, where the device can record it
};

/// Runs the programs of a plan on a device with communicators. Everything is allocated and prepared in the constructor;
/// a step allocates nothing.
class Executor {
 public:
  /// Collective. Throws Error (launch) where the ranks have different plans.
  Executor(const partition::Plan& plan, device::Device& device, comm::World& world, const ExecutorOptions& options);
  ~Executor();

  const partition::Plan& plan() const;

  /// Fills every variable's own shard from its initializer.
  void initialise_state();

  /// Host memory of an input for the whole batch: the own part, micro-batch-major. The loader writes here.
  void* input(const std::string& program, const std::string& name);
  const partition::ProgramValue& input_value(const std::string& program, const std::string& name) const;

  /// Host memory for the loader of a program: the plan's prefetch_bytes.
  std::span<std::byte> prefetch_memory(const std::string& program);

  /// Host memory in which a checkpoint waits to be written; empty where none is planned.
  std::span<std::byte> snapshot_memory();

  /// prologue, body for each micro-batch, epilogue ("" where there is none). Throws what a kernel throws (data) and,
  /// after the time limit, Error (peer lost) from a collective.
  void run(const std::string& program, const std::string& epilogue, const device::StepParams& params);

  /// The same in two halves: the epilogue runs if `proceed`, asked when the gradients are there, says so. Returns that.
  bool run_if(const std::string& program, const std::string& epilogue, const device::StepParams& params,
              const std::function<bool()>& proceed);

  /// Whether this rank's parts of all gradients are finite, between the halves.
  bool gradients_are_finite(const std::string& program) const;

  /// Copies of local parts, for prints, checkpoints and verify. `name`: an output of the program; a path; a gradient's
  /// path.
  void read_output(const std::string& program, const std::string& name, void* host) const;
  void read_state(const std::string& path, void* host) const;
  void write_state(const std::string& path, const void* host);
  void read_gradient(const std::string& program, const std::string& path, void* host) const;

  /// A part of the own shard: bytes from `offset`. Lets a large shard be filled and saved in pieces.
  void read_state(const std::string& path, std::int64_t offset, std::int64_t bytes, void* host) const;
  void write_state(const std::string& path, std::int64_t offset, std::int64_t bytes, const void* host);

  /// The state of a path. Throws Error (internal) if there is none.
  const partition::StateBuffer& state(const std::string& path) const;

  /// Copies variable `from` into `to`, of the same global shape, whatever their layouts are. Collective.
  void assign_state(const std::string& to, const std::string& from);

  /// Compares checksums of every variable among the ranks that hold the same part of it. Collective. Throws Error
  /// (internal) naming the first variable that differs and the ranks.
  void check_replicas() const;

  /// The implementations of the kernels in use, as text.
  const std::string& tuning() const;

  /// Time of each instruction so far; empty without ExecutorOptions::profile.
  std::vector<InstructionTime> times() const;

  /// Bytes that each pool was allocated with.
  std::int64_t pool_bytes(partition::Pool pool) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera::runtime
