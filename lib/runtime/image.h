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
  int index = 0;              // of the instruction in its section
  std::int64_t wait_for = 0;  // instructions of the other stream that must have ended

  device::Kernel* kernel = nullptr;  // null for a collective
  struct Operands {
    std::vector<const void*> inputs;
    std::vector<void*> outputs;
    std::vector<comm::Piece> pieces;
  };
  std::vector<Operands> operands;  // one, or one a micro-batch

  comm::Communicator* communicator = nullptr;  // null for a kernel
  std::string what;                            // "all_reduce of dense_1/kernel's gradient"
  comm::Reduce reduce = comm::Reduce::kSum;
  BoxTransfers transfers;

  const Operands& of(std::int64_t micro_batch) const {
    return operands[operands.size() == 1 ? 0 : static_cast<std::size_t>(micro_batch)];
  }
};

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

/// Makes programs ready for the rank at `coordinates`. Equal kernels of one stream are one object.
class ImageMaker {
 public:
  ImageMaker(const partition::Plan& plan, const Pools& pools, device::Device& device, comm::World& world);

  ProgramImage make(const partition::Program& program);

  /// Owns what the images point to.
  std::vector<std::unique_ptr<device::Kernel>> take_kernels() { return std::move(kernels_); }

 private:
  enum class Part { kPrologue, kBody, kEpilogue };
  struct Place {
    std::byte* base = nullptr;
    std::int64_t stride = 0;   // bytes from one micro-batch to the next
    bool whole_input = false;  // the value is an input of the loader itself, seen from the body
  };

  Place place_of(const partition::Program& program, int value, Part part) const;
  device::TensorSpec tensor_spec(const partition::Program& program, int value, Part part) const;
  SectionImage make_section(const partition::Program& program, const partition::Section& section, Part part);
  void prepare(Step& step, const partition::Program& program, const partition::KernelCall& call, Part part);
  void prepare(Step& step, const partition::Program& program, const partition::CollectiveCall& call, Part part);
  device::Kernel& kernel_for(const device::KernelSpec& spec, partition::Stream stream);

  const partition::Plan& plan_;
  const Pools& pools_;
  device::Device& device_;
  comm::World& world_;
  std::vector<std::int64_t> coordinates_;
  std::vector<std::unique_ptr<device::Kernel>> kernels_;
  std::map<std::string, device::Kernel*> kernel_by_spec_;
};

}  // namespace tessera::runtime
