#include "partition/program.h"

namespace tessera::partition {

std::string to_string(Pool pool) {
  switch (pool) {
    case Pool::kState:
      return "state";
    case Pool::kArena:
      return "arena";
    case Pool::kComm:
      return "communication region";
    case Pool::kStaging:
      return "host staging";
    case Pool::kScratch:
      return "scratch";
    case Pool::kUploads:
      return "uploaded inputs";
    case Pool::kSnapshot:
      return "checkpoint snapshot";
  }
  return "?";
}

std::string to_string(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return "all_reduce";
    case CollectiveKind::kReduceScatter:
      return "reduce_scatter";
    case CollectiveKind::kAllGather:
      return "all_gather";
    case CollectiveKind::kAllToAll:
      return "all_to_all";
    case CollectiveKind::kBoxExchange:
      return "box_exchange";
  }
  return "?";
}

std::string to_string(Phase phase) {
  switch (phase) {
    case Phase::kPrologue:
      return "prologue";
    case Phase::kForward:
      return "forward";
    case Phase::kBackward:
      return "backward";
    case Phase::kGradient:
      return "gradient";
    case Phase::kUpdate:
      return "update";
  }
  return "?";
}

}  // namespace tessera::partition
