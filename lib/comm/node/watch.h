#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace tessera::comm {

/// How many deadlines the control plane may wait: rank 0 plans or reads files meanwhile.
inline constexpr double kControlPatience = 10;

/// What a rank looks at while it waits for others: a rank that failed, processes that ended, and the time.
class Watch {
 public:
  /// `hosts`: by rank. `failed`: shared by the ranks of a node, 0 or 1 + the rank that failed first. `alive`: whether a
  /// rank's process is there, as far as this rank can know. `patience`: how many deadlines a wait may last. `outside`:
  /// of a rank of this node, how many of its threads wait for messages; nullptr: of another node, or it is not told.
  Watch(
      const World& world, std::vector<std::string> hosts, const std::atomic<std::uint32_t>* failed,
      std::function<bool(int)> alive, double patience = 1,
      std::function<std::atomic<std::int32_t>*(int)> outside = [](int) { return nullptr; });

  bool alive(int rank) const { return alive_(rank); }

  /// Tells the ranks of the node that a thread of this one begins or ends to wait for messages: meanwhile it isn't the
  /// one that is missing.
  void wait_outside(bool waits) const;

  /// The lowest rank whose process is known to have ended, or -1.
  int first_dead() const;

  /// Throws Error (peer lost) if a rank has failed, `dead` (-1: none) has ended, or the time is over after `seconds` of
  /// waiting for the `missing` ranks (none: nobody knows which; by_messages: of a collective of MPI, so that it is one
  /// of this node that doesn't wait for messages, else one of another). Missing ranks of the node that themselves wait
  /// for messages are given as much time again to say for whom. `what`: "all_reduce", if the world has no context.
  void look(const char* what, double seconds, const std::vector<int>& missing, int dead,
            bool by_messages = false) const;

  /// "rank 5 on node07"
  std::string name_of(int rank) const;
  /// "all_reduce of dense_1/kernel's gradient (instruction 412, step 88)"
  std::string doing(const char* what) const;

 private:
  bool waits_outside(int rank) const;
  std::vector<int> who_is_missing() const;
  std::string list(const std::vector<int>& ranks) const;

  const World& world_;
  std::vector<std::string> hosts_;
  const std::atomic<std::uint32_t>* failed_;
  std::function<bool(int)> alive_;
  double patience_;
  std::function<std::atomic<std::int32_t>*(int)> outside_;
};

}  // namespace tessera::comm
