// The trainer as a process, under launchers that do not do what is meant.
#include <algorithm>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/job.h"

namespace tessera::faults {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// "trainer plan CONFIG" of a small model.
std::string plan_of_a_small_model() {
  const auto file = testing::TempDir() + "launching.yaml";
  std::ofstream(file) << "{version: 1, model: {inputs: {x: {shape: [8]}}, layers: [{Dense: {units: 4}}]}, "
                         "compile: {optimizer: sgd, loss: mse}, data: {train: {random: {samples: 8}}}, "
                         "fit: {batch_size: 4}, output_dir: "
                      << testing::TempDir() << "}";
  return TESSERA_TRAINER " train " + file;
}

// The sentences for each launcher: tests/comm/launcher_test.cpp.
TEST(Faults, fault_17_processes_that_do_not_know_of_each_other_end_with_two_and_the_fix) {
  const auto by_srun =
      test::run_job("SLURM_PROCID=0 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=4 " + plan_of_a_small_model());
  EXPECT_EQ(by_srun.code, 2) << by_srun.output;
  EXPECT_THAT(by_srun.output,
              AllOf(HasSubstr("SLURM_STEP_NUM_TASKS is 4, but MPI sees 1 rank"), HasSubstr("srun --mpi=pmix")));
  const auto by_another = test::run_job("OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 " + plan_of_a_small_model());
  EXPECT_EQ(by_another.code, 2) << by_another.output;
  EXPECT_THAT(by_another.output, HasSubstr("OMPI_COMM_WORLD_SIZE is 2, but MPI sees 1 rank"));
}

TEST(Faults, fault_22_threads_that_outnumber_the_cores_of_the_binding_are_logged_with_it) {
  const std::string mpirun = "OMP_NUM_THREADS=2 mpirun --allow-run-as-root --oversubscribe -np 1 ";
  const auto bound = test::run_job(mpirun + "--bind-to core " + plan_of_a_small_model());
  EXPECT_EQ(bound.code, 0) << bound.output;
  EXPECT_THAT(bound.output, AllOf(HasSubstr("warning: 2 threads of the ranks on "), HasSubstr(" share 1 core ("),
                                  HasSubstr("mpirun --bind-to none")));
  if (std::thread::hardware_concurrency() < 2) return;
  const auto free = test::run_job(mpirun + "--bind-to none " + plan_of_a_small_model());
  EXPECT_EQ(free.code, 0) << free.output;
  EXPECT_THAT(free.output, Not(HasSubstr("threads of the ranks")));
}

// The fault itself, a rank that stops: tests/comm/failure_test.cpp
// (Failure.ASlowRankIsNamedOnceAndTheJobEndsWithSeven).

}  // namespace
}  // namespace tessera::faults
