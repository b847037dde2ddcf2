#include "comm/counting.h"

#include "core/error.h"

namespace tessera::comm {

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::kAllReduce:
      return "all_reduce";
    case Kind::kReduceScatter:
      return "reduce_scatter";
    case Kind::kAllGather:
      return "all_gather";
    case Kind::kAllToAll:
      return "all_to_all";
    case Kind::kBoxExchange:
      return "box_exchange";
    case Kind::kBarrier:
      return "barrier";
  }
  return "collective";
}

void add_call(Counters& counters, Kind kind, std::int64_t bytes, int ranks) {
  const auto add = [](Counter& counter, std::int64_t received) {
    ++counter.calls;
    counter.bytes += received;
  };
  const std::int64_t others = ranks - 1;
  switch (kind) {
    case Kind::kAllReduce:
      return add(counters.all_reduce, 2 * others * bytes / ranks);
    case Kind::kReduceScatter:
      return add(counters.reduce_scatter, others * bytes / ranks);
    case Kind::kAllGather:
      return add(counters.all_gather, others * bytes);
    case Kind::kAllToAll:
      return add(counters.all_to_all, others * bytes / ranks);
    default:
      TESSERA_CHECK(false, "{} is counted elsewhere", name_of(kind));
  }
}

void add_box_exchange(Counters& counters, const std::vector<BoxTransfer>& receives, DType dtype, int rank) {
  ++counters.box_exchange.calls;
  for (const auto& receive : receives) {
    if (receive.peer != rank) counters.box_exchange.bytes += elements(receive.box.size) * size_of(dtype);
  }
}

std::int64_t bytes_in(const std::vector<Piece>& pieces, DType dtype, int slots) {
  std::int64_t sum = 0;
  for (const auto& piece : pieces) {
    TESSERA_CHECK(piece.count >= 0 && piece.count % slots == 0, "{} elements in {} chunks", piece.count, slots);
    sum += piece.count;
  }
  return sum * size_of(dtype);
}

}  // namespace tessera::comm
