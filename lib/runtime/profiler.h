#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "device/device.h"
#include "runtime/image.h"

namespace tessera::runtime {

/// Time of one instruction of a program on this rank, over all steps but the first.
struct InstructionTime {
  std::string program, section, what, layer;  // "train", "body", "matmul"
  bool is_collective = false;
  std::int64_t runs = 0;
  double seconds = 0;
  std::int64_t flops = 0;  // of one run
  std::int64_t bytes = 0;  // of one run: operands read and results written; of a collective received
};

/// Two events around every instruction, and a range for the vendor's profiler.
class Profiler {
 public:
  explicit Profiler(device::Device& device) : device_(device) {}

  /// Makes the events of a program's sections.
  void add(const ProgramImage& image);

  void begin(const Step& step, std::int64_t micro_batch);
  void end(const Step& step, std::int64_t micro_batch);
  /// Adds up what a step of a program took; everything has ended. The first step of each program is left out.
  void collect(const ProgramImage& image, const std::string& epilogue);

  std::vector<InstructionTime> times() const;

 private:
  struct Events {
    std::unique_ptr<device::Event> begin, end;
    bool recorded = false;
  };
  struct Entry {
    InstructionTime time;
    std::vector<Events> of_micro_batch;
  };

  void add(const ProgramImage& image, const std::string& name, const SectionImage& section);
  Events& events_of(const Step& step, std::int64_t micro_batch);
  void collect(const SectionImage& section, bool counts);

  device::Device& device_;
  std::map<const Step*, Entry> entries_;
  std::vector<const Step*> order_;
  std::map<const ProgramImage*, std::int64_t> steps_;
};

}  // namespace tessera::runtime
