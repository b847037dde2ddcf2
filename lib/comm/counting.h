#pragma once

#include "comm/communicator.h"

namespace tessera::comm {

enum class Kind : std::uint8_t { kAllReduce = 1, kReduceScatter, kAllGather, kAllToAll, kBoxExchange, kBarrier };

/// "all_reduce", ...
const char* name_of(Kind kind);

/// Adds one call of the first four kinds by `ranks` ranks; `bytes`: of `in` of all pieces.
void add_call(Counters& counters, Kind kind, std::int64_t bytes, int ranks);

/// As above for a box exchange; the own boxes don't count.
void add_box_exchange(Counters& counters, const std::vector<BoxTransfer>& receives, DType dtype, int rank);

/// Bytes of `in` of all pieces. Checks that the counts are multiples of `slots`.
std::int64_t bytes_in(const std::vector<Piece>& pieces, DType dtype, int slots);

}  // namespace tessera::comm
