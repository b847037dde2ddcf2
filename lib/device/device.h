#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/attributes.h"
#include "core/dtype.h"
#include "core/shape.h"

namespace tessera::device {

/// Numbers that change from step to step or from micro-batch to micro-batch; kernels read them when they run. A GPU has
/// its own copy (Device::begin_step), of which only `micro_batch` is passed with each launch.
struct StepParams {
  std::int64_t step = 0;         // counts from 1; counter of Philox
  std::int64_t iteration = 0;    // optimizer updates done before this one
  double learning_rate = 0;      // of this update
  std::int64_t micro_batch = 0;  // index of the micro-batch in hand
  std::int64_t real_rows = 0;    // rows of the whole batch that are not padding
};

/// A kernel's operand: the local part and where it lies in the global tensor. Local data is contiguous, row-major.
/// `global` and `start` left empty: the local part is the whole.
struct TensorSpec {
  Shape shape;  // local
  DType dtype = DType::kF32;
  Shape global = {};  // of the whole tensor (of one micro-batch in the body)
  Shape start = {};   // index of the first local element in it
};

struct KernelSpec {
  std::string name;  // README.md of this room lists all
  std::vector<TensorSpec> inputs, outputs;
  Attributes attributes;
  std::string label = {};  // the layer, for the message of a kernel that finds wrong data after run() has returned
};

/// A device runs the work of a stream in order, and the two streams beside each other.
enum class Stream : std::uint8_t { kCompute, kComm };

/// A kernel made ready for fixed shapes: run() allocates nothing and looks nothing up.
class Kernel {
 public:
  virtual ~Kernel() = default;
  /// Pointers in the order of the spec. An output may be the same memory as an input where the README says so. On an
  /// asynchronous device the work is queued in the kernel's stream.
  virtual void run(const void* const* inputs, void* const* outputs, const StepParams& params) = 0;
};

using tessera::to_string;

enum class DeviceKind : std::uint8_t { kCpu, kCuda };
std::string to_string(DeviceKind kind);  // "cpu"

/// A point in a stream's work.
class Event {
 public:
  virtual ~Event() = default;
  /// Behind all that the stream has been given so far; replaces an earlier record.
  virtual void record(Stream stream) = 0;
  /// What the stream is given from now on starts after the last record.
  virtual void wait(Stream stream) = 0;
  /// Whether what lies before the last record has ended.
  virtual bool done() = 0;
  /// From the record of `start`, of the same device, to this one; both are done.
  virtual double seconds_since(const Event& start) const = 0;
};

/// Work that was queued once and is queued again as one: a CUDA graph.
class Recording {
 public:
  virtual ~Recording() = default;
  /// Queues it in the compute stream, for the step that has begun. What is queued there afterwards follows all of it.
  virtual void replay() = 0;
};

/// What a rank computes on. One a rank.
class Device {
 public:
  virtual ~Device() = default;

  virtual std::string name() const = 0;  // "cpu:0"

  virtual DeviceKind kind() const = 0;
  /// Whether run() only queues work. Then inputs of the loader have an image in host memory (upload), and the host
  /// waits for nothing but synchronize(), copy_in() and copy_out().
  bool asynchronous() const { return kind() == DeviceKind::kCuda; }

  /// Throws Error (internal) for an unknown name or operands that do not fit it.
  virtual std::unique_ptr<Kernel> make_kernel(const KernelSpec& spec, Stream stream = Stream::kCompute) = 0;

  /// Zeroed memory, aligned to 256 bytes, given back with the object. Throws Error (out of memory).
  virtual std::shared_ptr<void> allocate(std::int64_t bytes) = 0;
  /// The same in the host's memory, for what is copied to the device and back without a pause.
  virtual std::shared_ptr<void> allocate_host(std::int64_t bytes) = 0;

  /// Copies between the device and any memory of the host, after all work so far; done when they return.
  virtual void copy_in(void* device, const void* host, std::int64_t bytes) = 0;
  virtual void copy_out(void* host, const void* device, std::int64_t bytes) = 0;
  /// Queues a copy from allocate_host() memory in the compute stream.
  virtual void upload(void* device, const void* host, std::int64_t bytes) = 0;

  /// The parameters of the kernels that are run from now on.
  virtual void begin_step(const StepParams& params) = 0;
  /// Whether all work so far has ended. Does not wait.
  virtual bool idle() = 0;
  /// Waits until all work so far has ended. Throws Error: data, if a kernel has found an id or a label out of range;
  /// internal, naming the failed call.
  virtual void synchronize() = 0;

  virtual std::unique_ptr<Event> make_event() = 0;
  /// Takes down what `queue` queues in both streams, without running it. The work begins and ends in the compute
  /// stream, and each of its kernels and collectives has run before. Null where run() does not only queue.
  virtual std::unique_ptr<Recording> record(const std::function<void()>& queue) {
    (void)queue;
    return nullptr;
  }
  /// A named range of the host's time line, for the vendor's profiler.
  virtual void begin_range(const char* name) { (void)name; }
  virtual void end_range() {}
  /// The stream as collectives on the device need it (cudaStream_t); null where they run on the host.
  virtual void* native_stream(Stream stream) = 0;

  /// Times what has several implementations (matmul) for the kernels that are not in the tuning yet, and returns the
  /// whole tuning as text. One rank calls this and broadcasts the text, so that replicas compute the same bits.
  virtual std::string tune(const std::vector<KernelSpec>& kernels) = 0;
  /// Takes another rank's tuning over; to be called before kernels are made. What it lacks is chosen by a rule.
  virtual void set_tuning(const std::string& text) = 0;

  /// Working memory that the kernels made from now on share; the caller's. Kernels of one device run one at a time, but
  /// for the movements (copy, copy_box, fill, cast, keep_or_zero, pack, unpack, concat, split, add_n), which use none.
  virtual void set_scratch(void* memory, std::int64_t bytes) = 0;
};

struct CpuOptions {
  int threads = 1;
  std::string matmul_cache = {};  // file of the tuning; "": time anew
  int local_rank = 0;             // for the name
};
std::unique_ptr<Device> make_cpu_device(const CpuOptions& options);

/// Whether the kernel of this name throws Error (data) for what it finds in its inputs: ids and labels out of range.
bool checks_data(const std::string& name);

/// Working memory that a kernel needs on a device of this kind: of its shapes and attributes alone, so that it can be
/// planned where no device is. Throws Error (internal) for an unknown name.
std::int64_t scratch_bytes(DeviceKind kind, const KernelSpec& spec);

}  // namespace tessera::device
