#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace tessera::faults {

/// What the ranks of each group call on their communicator: kind, dtype and counts, in order.
class Recording {
 public:
  /// A world that does what the given one does, and writes it down.
  std::unique_ptr<comm::World> around(comm::World& world);

  void add(const std::vector<std::int64_t>& group, int rank, std::string call);

  /// By the ranks of the group, then by rank.
  std::map<std::vector<std::int64_t>, std::map<int, std::vector<std::string>>> groups;

 private:
  std::mutex mutex_;
};

}  // namespace tessera::faults
