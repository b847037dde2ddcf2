#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "device/device.h"
#include "mesh/distribution.h"
#include "partition/plan.h"
#include "support/case.h"

namespace tessera::test {

/// Global tensors by name.
using Tensors = std::map<std::string, std::vector<float>>;

/// Puts a rank's part into the global tensor; all copies of an element must have the same bits, else Error.
void merge(std::vector<float>& global, const std::vector<float>& local, const Box& box, const Shape& shape,
           const std::string& name);

struct Outcome {
  std::vector<double> losses;    // of each step, the same bits on all ranks
  std::vector<double> norms;     // of the gradients before clipping, as above
  Tensors gradients;             // of the first step
  Tensors weights;               // after the last
  std::vector<Tensors> watched;  // of each step
  /// What the ranks' collectives counted in all steps, of rank 0.
  comm::Counters counted;
  /// Memory that the executor took of rank 0's GPU; 0 on the CPU.
  std::int64_t gpu_bytes = 0;
};

/// A case made ready: its plan and the mesh that it is for.
struct Prepared {
  Case given;
  mesh::Distribution distribution;
  partition::Plan plan;
};

/// Plans a text (Case::yaml or yaml_of_one_rank) for `ranks`. `watched`: names of nodes of the training graph
/// ("dropout/dropout") whose values each step shall hand out. For GPUs of the profile h100, or the CPU.
Prepared prepare(const Case& given, const std::string& yaml, int ranks, const std::vector<std::string>& watched = {},
                 device::DeviceKind kind = device::DeviceKind::kCpu);

struct RunOptions {
  Tensors start;  // global values of variables, instead of their initialisers'
  /// A world around the given one, to look at what passes.
  std::function<std::unique_ptr<comm::World>(comm::World&)> wrap;
};

/// Trains `steps` steps on threads. Tensors are put together from the ranks' boxes; copies that differ in any bit are
/// an Error.
Outcome run(const Prepared& prepared, int steps, const RunOptions& options = {});

/// The same by the ranks of a world, of which this is one, on its device. Collective; every rank gets all.
Outcome run(const Prepared& prepared, int steps, comm::World& world, device::Device& device);

/// The largest difference relative to the largest element of its tensor, and where it is.
struct Difference {
  double worst = 0;
  std::string where = "nowhere";
};
Difference compare(const Outcome& one, const Outcome& other);

}  // namespace tessera::test
