#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "device/harness.h"

namespace tessera::device::test {

/// A kernel whose traffic is counted, at the sizes that real layers have and at odd ones.
struct TrafficCase {
  std::string title;  // "`softmax`"
  std::vector<Shape> shapes;
  std::function<KernelCase(const Shape&)> make;  // of one of the shapes
  /// Bytes that it has to move; absent: each operand once.
  std::function<std::int64_t(const KernelCase&)> minimum = {};
  std::string which_minimum = {};  // where it isn't each operand once
  std::string asked_again = {};    // what threads ask for several times, which the caches answer
};

/// Bytes of the operands.
std::int64_t operand_bytes(const KernelCase& c);

/// Every kernel of the table in lib/device/README.md but matmul.
std::vector<TrafficCase> traffic_cases();

}  // namespace tessera::device::test
