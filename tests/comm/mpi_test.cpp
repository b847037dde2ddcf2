#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/collectives.h"
#include "comm/mpi_main.h"
#include "core/error.h"

namespace tessera::comm {
namespace {

using ::testing::HasSubstr;

bool on_one_node() { return std::getenv("TESSERA_RANKS_PER_NODE") == nullptr; }

TEST(Mpi, ControlPlane) { check_control_plane(test_world()); }
TEST(Mpi, CollectivesMatchTheNaiveResult) { check_collectives(test_world()); }
TEST(Mpi, BoxesArriveWhereTheyBelong) { check_box_exchange(test_world()); }
TEST(Mpi, SumsAreTheSameBits) { check_bits(test_world(), on_one_node()); }
TEST(Mpi, CallsAndBytesAreCounted) { check_counters(test_world()); }
TEST(Mpi, HundredsOfCommunicators) { check_many_communicators(test_world()); }
TEST(Mpi, RanksThatRunAheadDoNoHarm) { check_in_a_hurry(test_world()); }

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
