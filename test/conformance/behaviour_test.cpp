// What a communicator promises besides the numbers: agreement checks, and peers that die, leave or give up.
#include "runtime/comm/local/shared_memory.h"
#include "runtime/support/error.h"
#include "test/conformance/behaviour.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace dtc::test {
namespace {

using Clock = std::chrono::steady_clock;

TEST_P(Behaviour, ExchangeGathersEveryRanksNumberInOrder) {
  auto failures = runRanks(GetParam(), {5}, [](Communicator &communicator, Arena &) {
    for (int64_t round = 0; round < 200; ++round) {
      std::vector<int64_t> expected;
      for (int64_t rank = 0; rank < 5; ++rank)
        expected.push_back(rank * 1000 + round);
      if (communicator.exchange(communicator.rank() * 1000 + round) != expected)
        throw std::runtime_error("wrong in round " + std::to_string(round));
    }
  });
  EXPECT_EQ(failures, std::vector<std::string>(5));
}

// Collectives over different groups interleave: ranks 0 and 3 never meet directly, yet all stay in step.
TEST_P(Behaviour, OverlappingGroupsStayInStep) {
  auto failures = runRanks(GetParam(), {4}, [](Communicator &communicator, Arena &arena) {
    auto *value = reinterpret_cast<int32_t *>(arena.base() + 4096);
    abi::Command message = allReduce(1);
    message.mutable_start()->set_type(abi::I32);
    int rank = communicator.rank();
    for (int round = 0; round < 300; ++round) {
      for (auto pair : {std::vector{0, 1}, std::vector{2, 3}, std::vector{1, 2}}) {
        if (std::find(pair.begin(), pair.end(), rank) == pair.end())
          continue;
        *value = rank + round;
        communicator.run(groupOf(pair, rank), message);
        if (*value != pair[0] + pair[1] + 2 * round)
          throw std::runtime_error("wrong sum in round " + std::to_string(round));
      }
    }
  });
  EXPECT_EQ(failures, std::vector<std::string>(4));
}

// Terms of different magnitude in f32: another order of addition gives another sum.
TEST_P(Behaviour, SumsAreEqualOnAllRanksAndEachTimeWhereThatIsPromised) {
  std::atomic<int> *flags = sharedFlags();
  auto failures = runRanks(GetParam(), {3}, [flags](Communicator &communicator, Arena &arena) {
    if (!communicator.capabilities().deterministicSums)
      return;
    auto *value = reinterpret_cast<float *>(arena.base() + 4096);
    abi::Command message = allReduce(1);
    constexpr float terms[] = {1e8F, -1e8F, 1.0F};
    for (int round = 0; round < 30; ++round) {
      *value = terms[communicator.rank()];
      std::this_thread::sleep_for(std::chrono::microseconds(100 * ((communicator.rank() + round) % 3)));
      communicator.run(groupOf({0, 1, 2}, communicator.rank()), message);
      if (*value != 1) // added in the order of ranks; any other order gives 0
        throw std::runtime_error("sum " + std::to_string(*value));
    }
    ++flags[0];
  });
  EXPECT_EQ(failures, std::vector<std::string>(3));
  EXPECT_EQ(flags[0], 3);
}

// Each rank gives up while the other's channel waits for it: both must return.
TEST_P(Behaviour, RanksThatLeaveWithCollectivesUnderWayDoNotHang) {
  auto failures = runRanks(GetParam(), {2}, [](Communicator &communicator, Arena &) {
    static abi::Command message = allReduce(10); // outlives the communicator
    communicator.start(groupOf({0, 1}, communicator.rank(), static_cast<uint32_t>(communicator.rank())), message);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    throw std::runtime_error("cannot go on");
  });
  EXPECT_EQ(failures, std::vector<std::string>(2, "cannot go on"));
}

abi::Command transfer(bool sends, int64_t shift, uint64_t buffer, int64_t elements, abi::DataType type = abi::F32) {
  abi::Command command;
  abi::Transfer &message = sends ? *command.mutable_send() : *command.mutable_recv();
  message.set_shift(shift);
  message.set_buffer(buffer);
  message.set_elements(elements);
  message.set_type(type);
  message.set_value("activations");
  return command;
}

// Each rank forwards what it received, along the line and back, at two addresses and sizes, while all ranks run an
// all-reduce on another channel. The sent buffer may change after the wait.
TEST_P(Behaviour, SendsMeetReceivesInTheirOrder) {
  auto failures = runRanks(GetParam(), {3}, [](Communicator &communicator, Arena &arena) {
    constexpr int64_t small = 3, large = 500000; // bf16: 1 MB and less than a line
    int rank = communicator.rank();
    auto *few = reinterpret_cast<uint16_t *>(arena.base() + 4096), *many = few + 4096;
    auto *sum = reinterpret_cast<float *>(arena.base() + (4 << 20));
    uint64_t fewAt = 4096, manyAt = 4096 + 2 * 4096;
    Group line = groupOf({0, 1, 2}, rank), all = groupOf({0, 1, 2}, rank, 1);
    auto move = [&](bool sends, int64_t shift) {
      abi::Command first = transfer(sends, shift, fewAt, small, abi::BF16);
      abi::Command second = transfer(sends, shift, manyAt, large, abi::BF16);
      CommandHandle one = communicator.start(line, first);
      communicator.run(line, second);
      communicator.wait(one);
    };
    for (int round = 0; round < 20; ++round) {
      *sum = 1;
      abi::Command reduction = allReduce(1, 4 << 20);
      CommandHandle beside = communicator.start(all, reduction);
      if (rank == 0) {
        std::fill_n(few, small, static_cast<uint16_t>(round));
        std::fill_n(many, large, static_cast<uint16_t>(round + 7));
      } else {
        std::fill_n(few, 4096, uint16_t{99});
        move(/*sends=*/false, -1);
        if (few[0] != round + 1000 * (rank - 1) || few[small - 1] != round || few[small] != 99 ||
            many[0] != round + 7 || many[large - 1] != round + 7)
          throw std::runtime_error("rank " + std::to_string(rank) + " got something else");
        few[0] += 1000; // which must not change what was sent
      }
      if (rank < 2)
        move(/*sends=*/true, 1);
      // Back to the first rank, cyclically: from the last rank it is the next.
      if (rank == 2)
        move(/*sends=*/true, 1);
      if (rank == 0) {
        move(/*sends=*/false, 2);
        if (few[0] != round + 2000 || few[1] != round || many[large - 1] != round + 7)
          throw std::runtime_error("rank 0 got something else back");
      }
      communicator.wait(beside);
      if (*sum != 3)
        throw std::runtime_error("wrong sum");
    }
  });
  EXPECT_EQ(failures, std::vector<std::string>(3));
}

TEST_P(Behaviour, TransfersThatDoNotFitAreTold) {
  struct Case {
    abi::Command first, second;
    const char *what;
  };
  const Case cases[] = {
      {transfer(true, 1, 4096, 8), transfer(false, 1, 4096, 9), "disagree about the transfer of activations"},
      {transfer(true, 1, 4096, 8), transfer(false, 1, 4096, 8, abi::I32), "disagree about the transfer"},
      {transfer(true, 1, 4096, 8), transfer(true, 1, 4096, 8), "disagree about the transfer"},
      {transfer(true, 1, 4096, 8), allReduce(8), "disagree about the "},
  };
  for (const Case &each : cases) {
    auto failures = runRanks(GetParam(), {2}, [&each](Communicator &communicator, Arena &) {
      int rank = communicator.rank();
      communicator.run(groupOf({0, 1}, rank), rank == 0 ? each.first : each.second);
    });
    for (const std::string &failure : failures)
      EXPECT_THAT(failure, testing::AnyOf(HasSubstr(each.what), HasSubstr("exit code 4")));
    EXPECT_THAT(failures, testing::Contains(HasSubstr("exit code 1: ranks ")));
  }
}

TEST_P(Behaviour, RanksWithDifferentProgramsAreTold) {
  auto failures = runRanks(GetParam(), {2}, [](Communicator &communicator, Arena &) {
    communicator.run(groupOf({0, 1}, communicator.rank()), allReduce(100 + communicator.rank()));
  });
  // One of the two may see the other leave instead.
  for (const std::string &failure : failures)
    EXPECT_THAT(failure,
                testing::AnyOf(HasSubstr("disagree about the collective of gradients"), HasSubstr("exit code 4")));
  EXPECT_THAT(failures, testing::Contains(HasSubstr("exit code 1: ranks ")));
}

// Each has the right lists, but one was resumed from another checkpoint.
TEST_P(Behaviour, RanksInDifferentStepsAreTold) {
  auto failures = runRanks(GetParam(), {2}, [](Communicator &communicator, Arena &) {
    for (int step : {5, communicator.rank() == 0 ? 6 : 7}) {
      communicator.whereabouts().beginStep(static_cast<uint64_t>(step));
      communicator.run(groupOf({0, 1}, communicator.rank()), allReduce(100));
    }
  });
  for (const std::string &failure : failures)
    EXPECT_THAT(failure, testing::AnyOf(testing::ContainsRegex("disagree .* \\(the first is in step [67]\\)"),
                                        HasSubstr("exit code 4")));
  EXPECT_THAT(failures, testing::Contains(HasSubstr("exit code 1: ranks ")));
}

TEST_P(Behaviour, PoisonReachesThoseWhoWaitWithItsReason) {
  auto failures = runRanks(GetParam(), {3}, [](Communicator &communicator, Arena &) {
    if (communicator.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(30)); // the others are asleep by now
      communicator.poison("no space left for the checkpoint");
      return;
    }
    communicator.run(groupOf({0, 1, 2}, communicator.rank()), allReduce(10));
  });
  EXPECT_EQ(failures[1], "");
  for (int rank : {0, 2})
    EXPECT_THAT(failures[rank], AllOf(HasSubstr("exit code 4"), HasSubstr("rank 1"), HasSubstr("no space left")));
}

// Rank 0 waits only for rank 1, which waits for rank 2, which is gone: everybody must name rank 2.
TEST_P(Behaviour, ARankThatLeavesIsNamedByThoseWhoDependOnItIndirectly) {
  auto failures = runRanks(GetParam(), {3}, [](Communicator &communicator, Arena &) {
    int rank = communicator.rank();
    if (rank == 1)
      communicator.run(groupOf({1, 2}, rank), allReduce(10));
    if (rank <= 1)
      communicator.run(groupOf({0, 1}, rank), allReduce(10));
  });
  EXPECT_EQ(failures[2], "");
  for (int rank : {0, 1})
    EXPECT_THAT(failures[rank], AllOf(HasSubstr("exit code 4"), HasSubstr("rank 2 was lost")));
}

INSTANTIATE_TEST_SUITE_P(All, Behaviour,
                         testing::Values(Bootstrap::Threads, Bootstrap::Processes, Bootstrap::NamedProcesses,
                                         Bootstrap::Staged, Bootstrap::Hosts, Bootstrap::TwoHosts,
                                         Bootstrap::JobProcesses),
                         testing::PrintToStringParamName());

//===----------------------------------------------------------------------===//
// Processes only
//===----------------------------------------------------------------------===//

class ProcessFailure : public Behaviour {
protected:
  std::string path() {
    if (GetParam() == Bootstrap::NamedProcesses)
      return freshName();
    rendezvous = std::make_unique<Rendezvous>(4);
    return rendezvous->path();
  }

private:
  std::unique_ptr<Rendezvous> rendezvous;
};

TEST_P(ProcessFailure, AKilledRankIsNamedByAllOthers) {
  std::atomic<int> *flags = sharedFlags();
  ProcessJob job(
      {4},
      [flags](Communicator &communicator, Arena &) {
        while (true) { // until a rank dies
          communicator.run(groupOf({0, 1, 2, 3}, communicator.rank()), allReduce(500000));
          ++flags[communicator.rank()];
        }
      },
      path());
  while (flags[2] < 3)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  auto killed = Clock::now();
  job.kill(2);
  auto failures = job.join();
  EXPECT_LT(Clock::now() - killed, std::chrono::seconds(10));
  EXPECT_EQ(failures[2], "signal 9");
  for (int rank : {0, 1, 3})
    EXPECT_THAT(failures[rank], AllOf(HasSubstr("exit code 4"), HasSubstr("rank 2 was lost: its process died")));
}

TEST_P(ProcessFailure, ARankKilledWhileNobodyWaitsIsNoticedByTheNextWait) {
  std::atomic<int> *flags = sharedFlags();
  ProcessJob job(
      {2},
      [flags](Communicator &communicator, Arena &) {
        communicator.barrier();
        flags[communicator.rank()] = 1;
        if (communicator.rank() == 1)
          pause();
        while (flags[2] == 0)
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        communicator.barrier();
      },
      path());
  while (flags[0] == 0 || flags[1] == 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  job.kill(1);
  flags[2] = 1;
  EXPECT_THAT(job.join()[0], HasSubstr("rank 1 was lost"));
}

TEST_P(ProcessFailure, ARankKilledWhileOthersStillStartIsNamed) {
  std::string file = path();
  std::atomic<int> *flags = sharedFlags();
  pid_t child = fork();
  if (child == 0) {
    Arena arena(4096, 0);
    flags[0] = 1;
    connectSharedMemory({file, 1, 3}, arena); // rank 2 never comes
    _exit(0);
  }
  while (flags[0] == 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::thread killer([child] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    kill(child, SIGKILL); // and is not reaped: its process id stays in use
  });
  try {
    Arena arena(4096, 0);
    connectSharedMemory({file, 0, 3, std::chrono::seconds(10)}, arena);
    ADD_FAILURE() << "connected";
  } catch (const PeerLostError &error) {
    EXPECT_EQ(error.rank(), 1);
  }
  killer.join();
  waitpid(child, nullptr, 0);
}

TEST_P(ProcessFailure, ARankThatNeverStartsIsNamed) {
  // One process short: rank 2 of 3 never starts.
  std::string file = path();
  auto connect = [&](int rank) {
    try {
      Arena arena(4096, 0);
      connectSharedMemory({file, rank, 3, std::chrono::milliseconds(1000)}, arena);
      return std::string();
    } catch (const Error &error) {
      return std::string(error.what());
    }
  };
  std::string other, own;
  std::thread thread([&] { other = connect(1); });
  own = connect(0);
  thread.join();
  // The process whose time-out ends first tells the other.
  for (const std::string &failure : {own, other})
    EXPECT_THAT(failure, HasSubstr("rank 2 of 3 did not start"));
}

TEST_P(ProcessFailure, TwoProcessesOfOneRankAreRefused) {
  std::string file = path();
  Arena arena(4096, 0);
  auto first = connectSharedMemory({file, 0, 1, std::chrono::seconds(1)}, arena);
  if (GetParam() == Bootstrap::NamedProcesses)
    return; // the name is gone: a second job of that name is another job
  Arena again(4096, 0);
  EXPECT_THROW(connectSharedMemory({file, 0, 1, std::chrono::seconds(1)}, again), Error);
}

TEST_P(ProcessFailure, RanksStartedWithDifferentCountsAreRefused) {
  std::string file = path();
  auto failures = std::vector<std::string>(2);
  std::vector<std::thread> threads;
  for (int rank : {0, 1})
    threads.emplace_back([&, rank] {
      try {
        Arena arena(4096, 0);
        connectSharedMemory({file, rank, 2 + rank, std::chrono::milliseconds(200)}, arena);
      } catch (const Error &error) {
        failures[rank] = error.what();
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_THAT(failures, testing::Contains(HasSubstr("start all ranks with the same count")));
}

INSTANTIATE_TEST_SUITE_P(All, ProcessFailure, testing::Values(Bootstrap::Processes, Bootstrap::NamedProcesses),
                         testing::PrintToStringParamName());

} // namespace
} // namespace dtc::test
