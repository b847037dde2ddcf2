#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "device/device.h"
#include "partition/program.h"
#include "runtime/box_transfers.h"

namespace tessera::runtime {

/// The pools of one rank.
struct Pools {
  std::array<std::byte*, partition::kPoolCount> base{};

  std::byte* at(partition::Pool pool) const { return base[static_cast<std::size_t>(pool)]; }
};

/// An instruction made ready. Operands that lie in an input of the loader move from micro-batch to micro-batch, so
/// pointers are kept for each of them.
struct Step {
  const partition::Instruction* instruction = nullptr;
  int number = 0;             // in its section
  std::int64_t wait_for = 0;  // instructions of the other stream that must have ended
  int wait_event = -1;        // the same for a device that works beside its host: of the last one, ...
  int own_event = -1;         // ... which records this when it has ended

  int kernel = -1;  // index into the kernels; -1: a collective
  struct Operands {
    std::vector<const void*> inputs;
    std::vector<void*> outputs;
    std::vector<comm::Piece> pieces;
  };
  std::vector<Operands> operands;  // one a micro-batch

  comm::Communicator* communicator = nullptr;  // null for a kernel
  std::string what;                            // "all_reduce of dense_1/kernel's gradient", "matmul, layer dense_1"
  comm::Reduce reduce = comm::Reduce::kSum;
  BoxTransfers transfers;
};

inline device::Stream stream_of(const Step& step) {
  return step.instruction->stream == partition::Stream::kComm ? device::Stream::kComm : device::Stream::kCompute;
}

struct SectionImage {
  std::vector<Step> steps;                    // in the order of the list
  std::array<std::vector<int>, 2> of_stream;  // indices into steps
};

struct ProgramImage {
  const partition::Program* program = nullptr;
  std::vector<std::byte*> values;  // by value; of micro-batch 0
  SectionImage prologue, body;
  std::map<std::string, SectionImage> epilogues;
};

/// Makes programs ready for one rank. Equal kernels of one stream are one object.
class ImageMaker {
 public:
  ImageMaker(const partition::Plan& plan, const Pools& pools, comm::World& world);

  ProgramImage make(const partition::Program& program);

  /// What the steps' kernel indices stand for.
  struct KernelOfStream {
    device::KernelSpec spec;
    device::Stream stream;
  };
  const std::vector<KernelOfStream>& kernels() const { return kernels_; }
  /// Numbers that the steps' events have been given.
  int event_count() const { return events_; }

 private:
  struct Place {
    std::byte* base = nullptr;
    std::int64_t stride = 0;  // bytes from one micro-batch to the next

    std::byte* at(std::int64_t micro_batch) const { return base + micro_batch * stride; }
  };

  std::int64_t slice_offset(const partition::ProgramValue& slice, const partition::ProgramValue& of) const;
  Place place_of(const partition::Program& program, int value) const;
  Place memory_of(const partition::Program& program, int value) const;
  device::TensorSpec tensor_spec(const partition::ProgramValue& value) const;
  SectionImage make_section(const partition::Program& program, const partition::Section& section);
  void mark_layers(SectionImage& image);
  void prepare(Step& step, const partition::Program& program, const partition::KernelCall& call);
  void prepare(Step& step, const partition::Program& program, const partition::CollectiveCall& call);
  int kernel_index(device::KernelSpec spec, partition::Stream stream);

  const partition::Plan& plan_;
  const Pools& pools_;
  comm::World& world_;
  std::vector<std::int64_t> coordinates_;
  std::vector<KernelOfStream> kernels_;
  std::map<std::string, int> index_of_kernel_;
  int events_ = 0;
};

}  // namespace tessera::runtime
