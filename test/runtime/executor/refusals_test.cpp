// Programs that do not match themselves, the memory, the kernels or the transport.
#include "runtime/abi/roles.h"
#include "test/runtime/executor/hand_written.h"

#include <gmock/gmock.h>

namespace dtc::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(ExecutorRefusesTest, ARankWithoutARole) {
  Program program = lineOfTwo();
  EXPECT_EQ(&abi::roleOf(program.manifest, 1), &program.manifest.roles(1));
  EXPECT_THROW(abi::roleOf(program.manifest, 2), Error);
}

TEST(ExecutorRefusesTest, WhatTheTransportCannotDo) {
  auto refusal = [](const Program &program, CommunicatorCapabilities can) -> std::string {
    Recording communicator;
    communicator.can = can;
    Arena arena(16384, 4096);
    CpuDevice device(1, resolve);
    try {
      Executor(program.manifest, communicator, device, arena);
      return "";
    } catch (const Error &error) {
      return error.what();
    }
  };
  Program inPlace(1), rows(1);
  inPlace.start(Y, 1);
  inPlace.wait(1);
  abi::Collective *gather = rows.start(Y, 1);
  gather->set_kind(abi::Collective::ALL_GATHER);
  gather->set_output(N);
  gather->set_outer(2);
  gather->set_chunk(8);
  rows.wait(1);
  EXPECT_EQ(refusal(inPlace, {.strided = false, .inPlace = true}), "");
  EXPECT_THAT(refusal(inPlace, {.strided = true}), HasSubstr("results in place, which this transport cannot do"));
  EXPECT_EQ(refusal(rows, {.strided = true}), "");
  EXPECT_THAT(refusal(rows, {.inPlace = true}), HasSubstr("list 'main', command 0: the collective of  asks for parts"));
  gather->set_outer(1);
  EXPECT_EQ(refusal(rows, {}), "");

  Program weighted(1), uneven(1);
  abi::Collective *merge = weighted.start(Y, 1);
  merge->set_reduction(abi::LOG_SUM_EXP);
  merge->set_log_input(N);
  merge->set_log_output(N);
  weighted.wait(1);
  abi::Collective *exchange = uneven.start(Y, 1);
  exchange->set_kind(abi::Collective::ALL_TO_ALL);
  exchange->set_middle(1);
  exchange->set_output(Y + 64);
  exchange->set_counts(N);
  uneven.wait(1);
  EXPECT_EQ(refusal(weighted, {.inPlace = true, .weightedRows = true}), "");
  EXPECT_THAT(refusal(weighted, {.strided = true, .inPlace = true, .unevenParts = true}),
              HasSubstr("asks for rows combined by log-sum-exp, which this transport cannot do"));
  EXPECT_EQ(refusal(uneven, {.strided = true, .unevenParts = true}), "");
  EXPECT_THAT(refusal(uneven, {.strided = true, .inPlace = true, .weightedRows = true}),
              HasSubstr("asks for as many rows as its counts say, which this transport cannot do"));
}

TEST(ExecutorRefusesTest, TwoTensorsOfOneName) {
  Program program(1);
  abi::Role &role = *program.manifest.mutable_roles(0);
  abi::Tensor again = role.tensors(0);
  *role.add_tensors() = again;
  EXPECT_THAT(refusalOf(program), HasSubstr("two tensors named 'x'"));
}

TEST(ExecutorRefusesTest, AnotherNumberOfRanks) {
  EXPECT_THAT(refusalOf(Program(4)), AllOf(HasSubstr("exit code 3"), HasSubstr("compiled for 4 ranks, but 1")));
}

TEST(ExecutorRefusesTest, AKernelThatIsNowhere) {
  Program program(1);
  program.manifest.mutable_kernels(0)->set_symbol("fused_17");
  EXPECT_THAT(refusalOf(program), HasSubstr("kernel 'fused_17', which was not found"));
}

TEST(ExecutorRefusesTest, ABufferBeyondTheArena) {
  Program program(1);
  program.launchScaleAdd(X, Y + 12288 - 60, 1.0, 1);
  EXPECT_THAT(refusalOf(program), AllOf(HasSubstr("list 'main', command 0 (h.1): a buffer at byte 12228")));
}

TEST(ExecutorRefusesTest, ACollectiveOutsideTheSharedPart) {
  Program program(2);
  program.start(X, 1, 1);
  program.wait(1);
  // Two ranks are needed to get that far; the second need not run for the first to refuse.
  InProcessJob job(2);
  Arena arena(16384, 4096), other(16384, 4096);
  std::unique_ptr<Communicator> peer;
  std::thread thread([&] { peer = job.join(1, other); });
  auto communicator = job.join(0, arena);
  thread.join();
  CpuDevice device(1, resolve);
  EXPECT_THROW(Executor(program.manifest, *communicator, device, arena), Error);
}

TEST(ExecutorRefusesTest, ACollectiveLargerThanAllMemory) {
  Program program(1);
  abi::Collective *collective = program.start(Y, 1, 1);
  collective->set_outer(int64_t(1) << 40);
  collective->set_chunk(int64_t(1) << 40);
  program.wait(1);
  EXPECT_THAT(refusalOf(program), HasSubstr("beyond all memory"));
}

TEST(ExecutorRefusesTest, StartsAndWaitsThatDoNotPair) {
  Program noWait(1), noStart(1), twice(1);
  noWait.start(Y, 1, 1);
  EXPECT_THAT(refusalOf(noWait), HasSubstr("runs list 'main', which ends before anybody waits for token 1"));
  noStart.wait(1);
  EXPECT_THAT(refusalOf(noStart), HasSubstr("was not started"));
  twice.start(Y, 1, 1);
  twice.start(N, 1, 1);
  EXPECT_THAT(refusalOf(twice), HasSubstr("token is in use"));
}

TEST(ExecutorRefusesTest, ATensorBeyondTheArena) {
  Program program(1);
  program.manifest.mutable_roles(0)->mutable_tensors(0)->add_local_shape(int64_t(1) << 61);
  EXPECT_THAT(refusalOf(program), HasSubstr("tensor 'x' does not lie in its role's memory"));
}

} // namespace
} // namespace dtc::test
