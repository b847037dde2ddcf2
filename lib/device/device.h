#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/attributes.h"
#include "core/dtype.h"
#include "core/shape.h"

namespace tessera::device {

/// Numbers that change from step to step or from micro-batch to micro-batch; kernels read them when they run. On a GPU
/// the block lies in device memory.
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
};

/// A kernel made ready for fixed shapes: run() allocates nothing and looks nothing up.
class Kernel {
 public:
  virtual ~Kernel() = default;
  /// Pointers in the order of the spec. An output may be the same memory as an input where the README says so.
  virtual void run(const void* const* inputs, void* const* outputs, const StepParams& params) = 0;
};

/// What a rank computes on. One a rank.
class Device {
 public:
  virtual ~Device() = default;

  virtual std::string name() const = 0;  // "cpu:0"

  /// Throws Error (internal) for an unknown name or operands that do not fit it.
  virtual std::unique_ptr<Kernel> make_kernel(const KernelSpec& spec) = 0;

  /// Zeroed memory, aligned to 256 bytes, given back with the object.
  virtual std::shared_ptr<void> allocate(std::int64_t bytes) = 0;

  virtual void copy_in(void* device, const void* host, std::int64_t bytes) = 0;
  virtual void copy_out(void* host, const void* device, std::int64_t bytes) = 0;
  /// All kernels so far have ended.
  virtual void synchronize() = 0;

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

/// Working memory that a kernel of the CPU needs: of its shapes and attributes alone, so that it can be planned where
/// no device is. Throws Error (internal) for an unknown name.
std::int64_t cpu_scratch_bytes(const KernelSpec& spec);

/// The GPU with this index. Throws Error (config) where this build has no CUDA backend.
std::unique_ptr<Device> make_cuda_device(int index);

}  // namespace tessera::device
