// Collectives between the ranks of an mpirun; each rank has the device of its number.
#include <chrono>
#include <nccl.h>
#include <thread>

#include <gmock/gmock.h>

#include "comm/communicator.h"
#include "comm/mpi_main.h"
#include "harness.h"

namespace tessera::cuda_emulator {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

int rank() { return comm::test_world().rank(); }
int size() { return comm::test_world().size(); }

#define ASSERT_NCCL(call) ASSERT_EQ(call, ncclSuccess)
#define EXPECT_NCCL(call) EXPECT_EQ(call, ncclSuccess)

ncclResult_t settle(ncclComm_t comm) {
  ncclResult_t state;
  while (ncclCommGetAsyncError(comm, &state) == ncclSuccess && state == ncclInProgress)
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  return state;
}

/// A communicator of all ranks.
ncclComm_t make_comm(bool blocking = true) {
  EXPECT_CUDA(cudaSetDevice(rank()));
  ncclUniqueId id{};
  if (rank() == 0) ncclGetUniqueId(&id);
  const std::string text = comm::test_world().broadcast(std::string(id.internal, sizeof id.internal), 0);
  std::copy(text.begin(), text.end(), id.internal);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = blocking ? 1 : 0;
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRankConfig(&comm, size(), id, rank(), &config), blocking ? ncclSuccess : ncclInProgress);
  EXPECT_NCCL(settle(comm));
  return comm;
}

/// The state of a call that may never end: of the communicator, after the stream was polled for a while.
ncclResult_t state_of(ncclComm_t comm, cudaStream_t s) {
  ncclResult_t state = ncclSuccess;
  const auto start = std::chrono::steady_clock::now();
  while (cudaStreamQuery(s) == cudaErrorNotReady && state == ncclSuccess &&
         std::chrono::steady_clock::now() - start < std::chrono::milliseconds(200)) {
    EXPECT_NCCL(ncclCommGetAsyncError(comm, &state));
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return state;
}

class NcclTest : public EmulatorTest {};

TEST_F(NcclTest, CollectivesGiveWhatTheirNamesSay) {
  const ncclComm_t comm = make_comm();
  const Stream s;
  const int n = size();
  const std::size_t count = 20000;  // more than a ring holds
  const Buffer<float> x(std::vector<float>(count, float(rank() + 1))), sum(count), all(count * std::size_t(n));
  ASSERT_NCCL(ncclAllReduce(x, sum, count, ncclFloat32, ncclSum, comm, s));
  ASSERT_NCCL(ncclAllGather(x, all, count, ncclFloat32, comm, s));
  ASSERT_CUDA(cudaStreamSynchronize(s));
  EXPECT_THAT(sum.host(), Each(float(n * (n + 1) / 2)));
  const std::vector<float> gathered = all.host();
  for (int r = 0; r < n; ++r) EXPECT_EQ(gathered[std::size_t(r) * count + 7], float(r + 1));

  ASSERT_NCCL(ncclReduceScatter(all, x, count, ncclFloat32, ncclMax, comm, s));
  ASSERT_NCCL(ncclBroadcast(x, sum, count, ncclFloat32, n - 1, comm, s));
  ASSERT_CUDA(cudaStreamSynchronize(s));
  EXPECT_THAT(x.host(), Each(float(rank() + 1)));
  EXPECT_THAT(sum.host(), Each(float(n)));
  ASSERT_NCCL(ncclCommDestroy(comm));
}

TEST_F(NcclTest, AGroupOfSendsAndReceivesIsAnExchange) {
  constexpr std::size_t kCount = 10000;  // more than a ring holds; two messages to each rank
  const ncclComm_t comm = make_comm();
  const Stream s;
  const Buffer<int> mine(std::vector<int>(kCount, rank())), again(std::vector<int>(kCount, 100 + rank()));
  const Buffer<int> theirs(kCount * std::size_t(size())), theirs_again(kCount * std::size_t(size()));
  ASSERT_NCCL(ncclGroupStart());
  for (int r = 0; r < size(); ++r) {
    const std::size_t at = kCount * std::size_t(r);
    ASSERT_NCCL(ncclSend(mine, kCount, ncclInt32, r, comm, s));
    ASSERT_NCCL(ncclSend(again, kCount, ncclInt32, r, comm, s));
    ASSERT_NCCL(ncclRecv(theirs + at, kCount, ncclInt32, r, comm, s));
    ASSERT_NCCL(ncclRecv(theirs_again + at, kCount, ncclInt32, r, comm, s));
  }
  ASSERT_NCCL(ncclGroupEnd());
  ASSERT_CUDA(cudaStreamSynchronize(s));
  const std::vector<int> got = theirs.host(), got_again = theirs_again.host();
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i], int(i / kCount));
    ASSERT_EQ(got_again[i], 100 + int(i / kCount));
  }
  ASSERT_NCCL(ncclCommDestroy(comm));
}

TEST_F(NcclTest, ASplitOrdersItsRanksByKey) {
  const ncclComm_t comm = make_comm();
  ncclComm_t half = nullptr;
  ASSERT_NCCL(ncclCommSplit(comm, rank() % 2, -rank(), &half, nullptr));
  int place = -1, members = -1;
  ASSERT_NCCL(ncclCommUserRank(half, &place));
  ASSERT_NCCL(ncclCommCount(half, &members));
  EXPECT_EQ(members, (size() + 1 - rank() % 2) / 2);
  EXPECT_EQ(place, members - 1 - rank() / 2);
  ASSERT_NCCL(ncclCommDestroy(half));
  ASSERT_NCCL(ncclCommDestroy(comm));
}

TEST_F(NcclTest, WithoutBlockingACallIsInProgressAtFirst) {
  const ncclComm_t comm = make_comm(false);
  const Stream s;
  const Buffer<float> x(std::vector<float>(10, 1.0f));
  EXPECT_EQ(ncclAllReduce(x, x, 10, ncclFloat32, ncclSum, comm, s), ncclInProgress);
  ASSERT_NCCL(settle(comm));
  ASSERT_CUDA(cudaStreamSynchronize(s));
  EXPECT_THAT(x.host(), Each(float(size())));

  const EventHandle event;
  EXPECT_EQ(ncclAllReduce(x, x, 10, ncclFloat32, ncclSum, comm, s), ncclInProgress);
  ASSERT_CUDA(cudaEventRecord(event, s));
  EXPECT_THAT(take_fault(), HasSubstr("an event is recorded while a NCCL call on its stream is in progress"));
  ASSERT_NCCL(settle(comm));
  ASSERT_CUDA(cudaStreamSynchronize(s));
  ASSERT_NCCL(ncclCommDestroy(comm));
}

TEST_F(NcclTest, WindowsLieAtEqualOffsetsOfNcclsMemory) {
  const ncclComm_t comm = make_comm();
  char* memory = nullptr;
  ASSERT_NCCL(ncclMemAlloc(reinterpret_cast<void**>(&memory), 2 * 4096 + 100));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % NCCL_WIN_REQUIRED_ALIGNMENT, 0u);
  ncclWindow_t window;
  ASSERT_NCCL(ncclCommWindowRegister(comm, memory, 4096, &window, NCCL_WIN_COLL_SYMMETRIC));
  ASSERT_NCCL(ncclCommWindowDeregister(comm, window));

  const Buffer<char> plain(4096);
  EXPECT_EQ(ncclCommWindowRegister(comm, plain, 4096, &window, NCCL_WIN_COLL_SYMMETRIC), ncclInvalidArgument);
  EXPECT_THAT(take_fault(), HasSubstr("isn't ncclMemAlloc's"));
  if (size() > 1) {
    EXPECT_EQ(ncclCommWindowRegister(comm, memory + 4096 * (rank() % 2), 4096, &window, NCCL_WIN_COLL_SYMMETRIC),
              ncclInvalidUsage);
    EXPECT_THAT(take_fault(), HasSubstr("4096 bytes at offset"));
  }
  ASSERT_NCCL(ncclMemFree(memory));
  ASSERT_NCCL(ncclCommDestroy(comm));
}

TEST_F(NcclTest, TwoCommunicatorsOnTwoStreamsWantAnOrder) {
  set_order(StreamOrder::kLate, ThreadOrder::kRandom);
  const ncclComm_t first = make_comm(), second = make_comm();
  const Buffer<float> x(std::vector<float>(10, 1.0f)), y(std::vector<float>(10, 1.0f));
  const Stream s, other;
  const EventHandle event;
  const auto call_both = [&](bool wait) {
    ASSERT_NCCL(ncclAllReduce(x, x, 10, ncclFloat32, ncclMax, first, s));
    ASSERT_CUDA(cudaEventRecord(event, s));
    if (wait) {
      ASSERT_CUDA(cudaStreamWaitEvent(other, event, 0));
    }
    ASSERT_NCCL(ncclAllReduce(y, y, 10, ncclFloat32, ncclMax, second, other));
    ASSERT_CUDA(cudaStreamSynchronize(s));
    ASSERT_CUDA(cudaStreamSynchronize(other));
  };
  call_both(true);
  EXPECT_EQ(take_fault(), "");
  call_both(false);
  EXPECT_THAT(take_fault(), HasSubstr("calls of two communicators may run at once"));
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 1);
  call_both(false);
  EXPECT_EQ(take_fault(), "");
  unsetenv("NCCL_LAUNCH_ORDER_IMPLICIT");
  ASSERT_NCCL(ncclCommDestroy(first));
  ASSERT_NCCL(ncclCommDestroy(second));
}

TEST_F(NcclTest, ACapturedCollectiveRunsAtEachLaunch) {
  const ncclComm_t comm = make_comm();
  const Buffer<float> x(std::vector<float>(10, 1.0f));
  const Stream s;
  ASSERT_CUDA(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
  ASSERT_NCCL(ncclAllReduce(x, x, 10, ncclFloat32, ncclSum, comm, s));
  cudaGraph_t graph;
  ASSERT_CUDA(cudaStreamEndCapture(s, &graph));
  cudaGraphExec_t exec;
  ASSERT_CUDA(cudaGraphInstantiate(&exec, graph, 0));
  ASSERT_CUDA(cudaGraphDestroy(graph));
  for (int times = 0; times < 2; ++times) ASSERT_CUDA(cudaGraphLaunch(exec, s));
  ASSERT_CUDA(cudaStreamSynchronize(s));
  EXPECT_THAT(x.host(), Each(float(size() * size())));
  ASSERT_CUDA(cudaGraphExecDestroy(exec));
  ASSERT_NCCL(ncclCommDestroy(comm));
}

TEST_F(NcclTest, AllRanksBuffersLieInWindowsOrNones) {
  if (size() == 1) GTEST_SKIP() << "wants several ranks";
  const ncclComm_t comm = make_comm();
  const Stream s;
  float* memory = nullptr;
  ASSERT_NCCL(ncclMemAlloc(reinterpret_cast<void**>(&memory), 2 * 4096));
  ncclWindow_t window;
  ASSERT_NCCL(ncclCommWindowRegister(comm, memory, 4096, &window, NCCL_WIN_COLL_SYMMETRIC));
  ASSERT_NCCL(ncclAllReduce(memory, memory, 8, ncclFloat32, ncclSum, comm, s));
  ASSERT_CUDA(cudaStreamSynchronize(s));
  float* mine = rank() == 0 ? memory : memory + 1024;  // behind the window
  ASSERT_NCCL(ncclAllReduce(mine, mine, 8, ncclFloat32, ncclSum, comm, s));
  state_of(comm, s);
  comm::test_world().barrier();
  EXPECT_THAT(take_fault(), HasSubstr("NCCL: rank "));
  ASSERT_NCCL(ncclCommAbort(comm));
  EXPECT_CUDA(cudaStreamSynchronize(s));
  EXPECT_CUDA(cudaFree(memory));
}

TEST_F(NcclTest, CallsInAnotherOrderAreAFaultOnBothRanks) {
  if (size() == 1) GTEST_SKIP() << "wants several ranks";
  const ncclComm_t comm = make_comm();
  const Stream s;
  const Buffer<float> x(std::vector<float>(64, 1.0f));
  if (rank() == 0) {
    ASSERT_NCCL(ncclAllReduce(x, x, 64, ncclFloat32, ncclSum, comm, s));
    ASSERT_NCCL(ncclBroadcast(x, x, 64, ncclFloat32, 0, comm, s));
  } else {
    ASSERT_NCCL(ncclBroadcast(x, x, 64, ncclFloat32, 0, comm, s));
    ASSERT_NCCL(ncclAllReduce(x, x, 64, ncclFloat32, ncclSum, comm, s));
  }
  state_of(comm, s);
  comm::test_world().barrier();
  EXPECT_THAT(take_fault(), HasSubstr("NCCL: rank "));
  ASSERT_NCCL(ncclCommAbort(comm));
  EXPECT_CUDA(cudaStreamSynchronize(s));
}

TEST_F(NcclTest, ARankThatStaysAwayIsWaitedFor) {
  if (size() == 1) GTEST_SKIP() << "wants several ranks";
  const ncclComm_t comm = make_comm();
  const Stream s;
  const Buffer<float> x(std::vector<float>(64, 1.0f));
  if (rank() == 0) {
    ASSERT_NCCL(ncclAllReduce(x, x, 64, ncclFloat32, ncclSum, comm, s));
    EXPECT_NCCL(state_of(comm, s));
    EXPECT_EQ(cudaStreamQuery(s), cudaErrorNotReady);
  }
  comm::test_world().barrier();
  ASSERT_NCCL(ncclCommAbort(comm));
  EXPECT_CUDA(cudaStreamSynchronize(s));
}

TEST_F(NcclTest, AnInjectedFailureShowsAsAnAsynchronousError) {
  const ncclComm_t comm = make_comm();
  const Stream s;
  const Buffer<float> x(std::vector<float>(64, 1.0f));
  fail_at(Failure::kNccl, 2);
  ASSERT_NCCL(ncclAllReduce(x, x, 64, ncclFloat32, ncclSum, comm, s));
  ASSERT_CUDA(cudaStreamSynchronize(s));
  ASSERT_NCCL(ncclAllReduce(x, x, 64, ncclFloat32, ncclSum, comm, s));
  EXPECT_EQ(state_of(comm, s), ncclRemoteError);
  EXPECT_EQ(cudaStreamQuery(s), cudaErrorNotReady);
  ASSERT_NCCL(ncclCommAbort(comm));
  EXPECT_CUDA(cudaStreamSynchronize(s));
}

}  // namespace
}  // namespace tessera::cuda_emulator
