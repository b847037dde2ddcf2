// What the communicators count against what goes through MPI, seen by MPI's profiling interface: the functions here
// stand before MPI's own. Every rank is a node, so that nothing passes through shared memory.
#define OMPI_SKIP_MPICXX 1  // MPI's C++ functions are another library

#include <cstdlib>
#include <string>

#include <gtest/gtest.h>
#include <mpi.h>

#include "comm/mpi_main.h"
#include "support/planned_counters.h"
#include "train/session.h"

namespace {

using tessera::comm::Counter;
using tessera::comm::Counters;

Counters received;                // by kind, of the collectives of a plan
std::int64_t other_calls = 0;     // that carry anything else
const void* last_what = nullptr;  // of the collective in hand
int last_instruction = -1;
std::int64_t last_step = -1;

std::int64_t bytes_of(int count, MPI_Datatype type) {
  int size = 0;
  PMPI_Type_size(type, &size);
  return std::int64_t{count} * size;
}

Counter* counter_of(std::string_view what) {
  if (what.starts_with("all_reduce")) return &received.all_reduce;
  if (what.starts_with("reduce_scatter")) return &received.reduce_scatter;
  if (what.starts_with("all_gather")) return &received.all_gather;
  if (what.starts_with("all_to_all")) return &received.all_to_all;
  if (what.starts_with("box_exchange")) return &received.box_exchange;
  return nullptr;
}

void note_receive(std::int64_t bytes) {
  const auto* context = tessera::comm::test_world().context();
  auto* counter = context == nullptr ? nullptr : counter_of(context->what);
  if (counter == nullptr) {
    ++other_calls;
    return;
  }
  const bool same =
      context->what.data() == last_what && context->instruction == last_instruction && context->step == last_step;
  last_what = context->what.data();
  last_instruction = context->instruction;
  last_step = context->step;
  if (!same) ++counter->calls;
  counter->bytes += bytes;
}

}  // namespace

extern "C" {
int MPI_Irecv(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request* request) {
  note_receive(bytes_of(count, type));
  return PMPI_Irecv(data, count, type, from, tag, comm, request);
}
int MPI_Recv(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Status* status) {
  ++other_calls;
  return PMPI_Recv(data, count, type, from, tag, comm, status);
}
int MPI_Put(const void* data, int count, MPI_Datatype type, int to, MPI_Aint at, int to_count, MPI_Datatype to_type,
            MPI_Win window) {
  ++other_calls;
  return PMPI_Put(data, count, type, to, at, to_count, to_type, window);
}
int MPI_Get(void* data, int count, MPI_Datatype type, int from, MPI_Aint at, int from_count, MPI_Datatype from_type,
            MPI_Win window) {
  ++other_calls;
  return PMPI_Get(data, count, type, from, at, from_count, from_type, window);
}
int MPI_Allreduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  ++other_calls;
  return PMPI_Allreduce(in, out, count, type, op, comm);
}
int MPI_Iallreduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                   MPI_Request* request) {
  ++other_calls;
  return PMPI_Iallreduce(in, out, count, type, op, comm, request);
}
int MPI_Ibcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request* request) {
  ++other_calls;
  return PMPI_Ibcast(data, count, type, root, comm, request);
}
int MPI_Iallgather(const void* in, int count, MPI_Datatype type, void* out, int out_count, MPI_Datatype out_type,
                   MPI_Comm comm, MPI_Request* request) {
  ++other_calls;
  return PMPI_Iallgather(in, count, type, out, out_count, out_type, comm, request);
}
int MPI_Iallgatherv(const void* in, int count, MPI_Datatype type, void* out, const int counts[], const int starts[],
                    MPI_Datatype out_type, MPI_Comm comm, MPI_Request* request) {
  ++other_calls;
  return PMPI_Iallgatherv(in, count, type, out, counts, starts, out_type, comm, request);
}
int MPI_Alltoallw(const void* in, const int counts[], const int starts[], const MPI_Datatype types[], void* out,
                  const int out_counts[], const int out_starts[], const MPI_Datatype out_types[], MPI_Comm comm) {
  ++other_calls;
  return PMPI_Alltoallw(in, counts, starts, types, out, out_counts, out_starts, out_types, comm);
}
}

namespace tessera::train {
namespace {

constexpr std::int64_t kSteps = 3;

std::int64_t of_all(comm::World& world, std::int64_t own) {
  std::int64_t sum = 0;
  for (const auto& text : world.gather(std::to_string(own))) sum += std::stoll(text);
  return sum;
}

Counter difference(const Counter& a, const Counter& b) { return {a.calls - b.calls, a.bytes - b.bytes}; }

// A rank's own share of an all-reduce may be a rounding larger than another's: bytes are compared over all ranks.
void expect_same(comm::World& world, const Counter& through_mpi, const Counter& counted, const std::string& what) {
  EXPECT_EQ(through_mpi.calls, counted.calls) << what;
  EXPECT_EQ(of_all(world, through_mpi.bytes), of_all(world, counted.bytes)) << what;
}

/// Steps of a config on data that are all 0. Returns the planned calls.
std::int64_t check_config(const std::string& name, const std::vector<std::string>& overrides) {
  auto& world = comm::test_world();
  const auto file = std::string(TESSERA_SOURCE_DIR "/configs/") + name + ".yaml";
  const auto spec = config::parse_spec(config::read_text(file), file, overrides);
  Session session(spec, world, {.programs = {"train"}, .threads = 1});
  const auto before = world.counters();
  received = {};
  other_calls = 0;
  for (std::int64_t step = 1; step <= kSteps; ++step)
    session.executor().run(
        "train", "apply",
        {.step = step, .iteration = step - 1, .learning_rate = 0.1, .real_rows = spec.fit.batch_size});
  const auto through_mpi = received;
  EXPECT_EQ(other_calls, 0) << name;
  const auto& after = world.counters();
  const Counters counted{
      difference(after.all_reduce, before.all_reduce), difference(after.reduce_scatter, before.reduce_scatter),
      difference(after.all_gather, before.all_gather), difference(after.all_to_all, before.all_to_all),
      difference(after.box_exchange, before.box_exchange)};
  expect_same(world, through_mpi.all_reduce, counted.all_reduce, name + ": all_reduce");
  expect_same(world, through_mpi.reduce_scatter, counted.reduce_scatter, name + ": reduce_scatter");
  expect_same(world, through_mpi.all_gather, counted.all_gather, name + ": all_gather");
  expect_same(world, through_mpi.all_to_all, counted.all_to_all, name + ": all_to_all");
  expect_same(world, through_mpi.box_exchange, counted.box_exchange, name + ": box_exchange");

  auto planned = test::planned_counters(session.plan(), kSteps);
  planned.box_exchange = counted.box_exchange;
  EXPECT_EQ(counted, planned) << name;
  return planned.all_reduce.calls + planned.reduce_scatter.calls + planned.all_gather.calls + planned.all_to_all.calls;
}

TEST(MpiProfile, PlannedCountedAndSentBytesAreTheSame) {
  auto& world = comm::test_world();
  const char* node = std::getenv("TESSERA_RANKS_PER_NODE");
  ASSERT_TRUE(node != nullptr && std::string(node) == "1") << "every rank is to be a node: TESSERA_RANKS_PER_NODE=1";
  for (const auto* name : {"digits_mlp", "mlp_fsdp", "mlp_megatron"}) EXPECT_GT(check_config(name, {}), 0) << name;
  if (world.size() != 4) return;
  EXPECT_GT(check_config("seed_mesh_2x4", {"distribution.ModelParallel.mesh.shape=[2, 2]"}), 0);
}

}  // namespace
}  // namespace tessera::train
