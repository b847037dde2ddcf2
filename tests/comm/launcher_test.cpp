#include "comm/mpi/launcher.h"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera::comm {
namespace {

using ::testing::HasSubstr;

std::string mismatch(int size, std::map<std::string, std::string> environment, bool whole_job = true) {
  return launcher_mismatch(size, whole_job, [&](const char* name) { return environment[name]; });
}

TEST(Launcher, NoLauncherIsFine) { EXPECT_EQ(mismatch(1, {}), ""); }

TEST(Launcher, SrunThatStartsSingletonsNamesTheFix) {
  const auto sentence = mismatch(1, {{"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_NTASKS", "8"}}, false);
  EXPECT_THAT(sentence, HasSubstr("SLURM_STEP_NUM_TASKS is 4, but MPI sees 1 rank:"));
  EXPECT_THAT(sentence, HasSubstr("srun --mpi=pmix"));
}

TEST(Launcher, ABatchScriptWithoutALauncherIsAMistakeWhereTheWholeJobIsMeant) {
  EXPECT_THAT(mismatch(1, {{"SLURM_NTASKS", "4"}}), HasSubstr("in a batch script start it with srun --mpi=pmix"));
  EXPECT_EQ(mismatch(1, {{"SLURM_NTASKS", "4"}}, false), "");
}

TEST(Launcher, AStepMayUseAPartOfAnAllocation) {
  EXPECT_EQ(mismatch(1, {{"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_NTASKS", "8"}}), "");
}

TEST(Launcher, AnotherMpirunNamesTheFix) {
  EXPECT_THAT(mismatch(1, {{"OMPI_COMM_WORLD_SIZE", "2"}}), HasSubstr("mpirun of the Open MPI that it is linked with"));
  EXPECT_THAT(mismatch(1, {{"PMI_SIZE", "2"}}), HasSubstr("PMI_SIZE is 2"));
}

TEST(Launcher, MpirunMayUseAPartOfAnAllocation) {
  EXPECT_EQ(mismatch(2, {{"OMPI_COMM_WORLD_SIZE", "2"}, {"SLURM_NTASKS", "8"}}), "");
}

}  // namespace
}  // namespace tessera::comm
