#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/collectives.h"
#include "comm/mpi_main.h"
#include "core/error.h"
#include "support/allocations.h"

namespace tessera::comm {
namespace {

using ::testing::HasSubstr;

bool on_one_node() { return std::getenv("TESSERA_RANKS_PER_NODE") == nullptr; }

TEST(Mpi, ControlPlane) { check_control_plane(test_world()); }
TEST(Mpi, CollectivesMatchTheNaiveResult) { check_collectives(test_world()); }
TEST(Mpi, BoxesArriveWhereTheyBelong) { check_box_exchange(test_world()); }
TEST(Mpi, SumsAreTheSameBits) { check_bits(test_world(), on_one_node()); }
TEST(Mpi, NanIsTheMaximum) { check_maximum_of_nan(test_world()); }
TEST(Mpi, CallsAndBytesAreCounted) { check_counters(test_world()); }
TEST(Mpi, HundredsOfCommunicators) { check_many_communicators(test_world()); }
TEST(Mpi, RanksThatRunAheadDoNoHarm) { check_in_a_hurry(test_world()); }

TEST(Mpi, CallsAfterTheFirstAllocateNothing) {
  auto& world = test_world();
  const auto n = static_cast<std::int64_t>(world.size());
  std::vector<std::int64_t> ranks(static_cast<std::size_t>(n));
  std::iota(ranks.begin(), ranks.end(), 0);
  auto& comm = world.communicator(ranks);
  auto* region = static_cast<float*>(world.communication_region(8 << 20));
  std::vector<float> heap(1 << 20);
  for (const std::int64_t count : {8 * n, 20000 * n}) {
    for (float* data : {region, heap.data()}) {
      const std::vector<Piece> pieces{{data, data, count}, {data + count, data + 2 * count, 16 * n}};
      const std::vector<Piece> chunks{{data, data + count, count}};
      const std::vector<Piece> gathered{{data, data + count, count / n}};
      const Shape tensor{n, count / n};
      std::vector<BoxTransfer> transfers;
      for (int peer = 0; peer < n; ++peer) transfers.push_back({peer, tensor, {{peer, 1}, {1, count / n - 2}}});
      const auto step = [&] {
        comm.all_reduce(pieces, DType::kF32, Reduce::kSum);
        comm.reduce_scatter(chunks, DType::kF32, Reduce::kSum);
        comm.all_gather(gathered, DType::kF32);
        comm.all_to_all(chunks, DType::kF32);
        comm.box_exchange(data, transfers, data + count, transfers, DType::kF32);
        comm.barrier();
      };
      step();
      const auto before = test::allocations.load();
      for (int k = 0; k < 5; ++k) step();
      EXPECT_EQ(test::allocations - before, 0) << count;
    }
  }
}

TEST(Mpi, TooLittleSharedMemorySaysWhatToDo) {
  try {
    test_world().communication_region(std::int64_t{1} << 44);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kConfig);
    EXPECT_THAT(e.what(), HasSubstr("--shm-size="));
  }
}

}  // namespace
}  // namespace tessera::comm
