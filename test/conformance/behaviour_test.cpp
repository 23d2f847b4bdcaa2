// What a communicator promises besides the numbers: handles and channels, agreement checks, and peers that die, leave
// or give up.
#include "runtime/abi/error.h"
#include "runtime/comm/shared_memory.h"
#include "test/conformance/ranks.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mutex>
#include <numeric>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace dtc::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

abi::Command allReduce(int elements, uint64_t offset = 4096) {
  abi::Command command;
  abi::Collective &message = *command.mutable_start();
  message.set_kind(abi::Collective::ALL_REDUCE);
  message.set_input(offset);
  message.set_output(offset);
  message.set_outer(1);
  message.set_chunk(elements);
  message.set_value("gradients");
  return command;
}

Group groupOf(std::vector<int> ranks, int rank, uint32_t channel = 0) {
  Group group;
  group.channel = channel;
  group.self = static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
  group.ranks = std::move(ranks);
  return group;
}

class Behaviour : public testing::TestWithParam<Bootstrap> {
protected:
  /// No file of this test's may be left in /dev/shm, whatever happened to the ranks.
  void TearDown() override {
    std::filesystem::path directory = std::filesystem::path(freshName()).parent_path();
    if (std::filesystem::exists(directory))
      EXPECT_TRUE(std::filesystem::is_empty(directory)) << directory;
    std::filesystem::remove_all(directory);
  }
};

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

// Rank 1 joins the collective only after rank 0 has gone on computing behind its start: if start waited for the
// collective, this would not end.
TEST_P(Behaviour, AStartDoesNotWait) {
  std::atomic<int> *flags = sharedFlags();
  auto failures = runRanks(GetParam(), {2}, [flags](Communicator &communicator, Arena &arena) {
    auto *values = reinterpret_cast<float *>(arena.base() + 4096);
    abi::Command message = allReduce(1000);
    Group group = groupOf({0, 1}, communicator.rank());
    if (communicator.rank() == 1)
      while (flags[0] == 0)
        std::this_thread::yield();
    std::fill(values, values + 1000, float(communicator.rank() + 1)); // visible to the collective
    CommandHandle handle = communicator.start(group, message);
    if (communicator.rank() == 0)
      flags[0] = 1;
    CommandTimes times = communicator.wait(handle);
    if (std::accumulate(values, values + 1000, 0.0) != 3000.0)
      throw std::runtime_error("wrong result after the wait");
    if (times.begin <= 0 || times.end < times.begin)
      throw std::runtime_error("wrong times");
  });
  EXPECT_EQ(failures, std::vector<std::string>(2));
}

// Rank 1 starts what is on channel 1 and waits for it before it starts what rank 0 has started first, on channel 0: if
// one kept the other up, this would not end. Numbers for the host pass by both.
TEST_P(Behaviour, ChannelsMakeProgressSideBySide) {
  auto failures = runRanks(GetParam(), {2}, [](Communicator &communicator, Arena &arena) {
    int rank = communicator.rank();
    for (uint32_t other = 1; other < abi::MaximumChannels; ++other) {
      auto *values = reinterpret_cast<float *>(arena.base() + 4096);
      values[0] = values[1024] = float(rank + 1);
      abi::Command first = allReduce(1), second = allReduce(1, 8192);
      Group one = groupOf({0, 1}, rank), two = groupOf({0, 1}, rank, other);
      CommandHandle early, late;
      if (rank == 0)
        early = communicator.start(one, first);
      late = communicator.start(two, second);
      communicator.wait(late);
      communicator.barrier();
      if (rank == 1)
        early = communicator.start(one, first);
      communicator.wait(early);
      if (values[0] != 3 || values[1024] != 3)
        throw std::runtime_error("wrong sum beside channel " + std::to_string(other));
    }
  });
  EXPECT_EQ(failures, std::vector<std::string>(2));
}

/// Gives up for a rank after ten seconds, so that a test of what must not hang ends.
class Watchdog {
public:
  explicit Watchdog(Communicator &communicator)
      : thread([this, &communicator] {
          std::unique_lock lock(mutex);
          if (!done.wait_for(lock, std::chrono::seconds(10), [this] { return isDone; }))
            communicator.poison("nothing went on");
        }) {}
  ~Watchdog() {
    {
      std::lock_guard lock(mutex);
      isDone = true;
    }
    done.notify_all();
    thread.join();
  }

private:
  std::mutex mutex;
  std::condition_variable done;
  bool isDone = false;
  std::thread thread;
};

// What has been handed over is carried out while nobody here waits, and so is what precedes a number for the host.
TEST_P(Behaviour, WhatIsHandedOverMakesProgressByItself) {
  std::atomic<int> *flags = sharedFlags();
  auto failures = runRanks(GetParam(), {2}, [flags](Communicator &communicator, Arena &arena) {
    Watchdog watchdog(communicator);
    auto *values = reinterpret_cast<float *>(arena.base() + 4096);
    values[0] = values[1024] = float(communicator.rank() + 1);
    abi::Command first = allReduce(1), second = allReduce(1, 8192);
    Group group = groupOf({0, 1}, communicator.rank());
    CommandHandle handle = communicator.start(group, first);
    if (communicator.rank() == 0) {
      communicator.handOver();
      for (auto begin = std::chrono::steady_clock::now(); flags[0] == 0;)
        if (std::chrono::steady_clock::now() > begin + std::chrono::seconds(5))
          throw std::runtime_error("the other rank waits in vain");
    }
    communicator.wait(handle);
    flags[0] = 1;
    CommandHandle late = communicator.start(group, second);
    if (communicator.rank() == 1)
      communicator.wait(late);
    communicator.barrier();
    if (communicator.rank() == 0)
      communicator.wait(late);
    if (values[0] != 3 || values[1024] != 3)
      throw std::runtime_error("wrong sum");
  });
  EXPECT_EQ(failures, std::vector<std::string>(2));
}

// Rank 0 waits for the second of two commands, which rank 1 starts only when the first is done; on each pair of
// channels.
TEST_P(Behaviour, WhoSleepsForOneCommandHoldsUpNoOther) {
  auto failures = runRanks(GetParam(), {2}, [](Communicator &communicator, Arena &arena) {
    Watchdog watchdog(communicator);
    auto *values = reinterpret_cast<float *>(arena.base() + 4096);
    for (uint32_t other = 1; other < abi::MaximumChannels; ++other) {
      values[0] = values[1024] = float(communicator.rank() + 1);
      abi::Command first = allReduce(1), second = allReduce(1, 8192);
      Group one = groupOf({0, 1}, communicator.rank()), two = groupOf({0, 1}, communicator.rank(), other);
      CommandHandle early = communicator.start(one, first), late;
      if (communicator.rank() == 0)
        late = communicator.start(two, second);
      else
        communicator.wait(early);
      if (communicator.rank() == 1)
        late = communicator.start(two, second);
      communicator.wait(late);
      if (communicator.rank() == 0)
        communicator.wait(early);
      if (values[0] != 3 || values[1024] != 3)
        throw std::runtime_error("wrong sum beside channel " + std::to_string(other));
    }
  });
  EXPECT_EQ(failures, std::vector<std::string>(2));
}

// Rank 0 has started a second command when it waits for the first, and rank 1 starts it only after they have met.
TEST_P(Behaviour, AWaitDoesNotWaitForOtherCommands) {
  auto failures = runRanks(GetParam(), {2}, [](Communicator &communicator, Arena &arena) {
    Watchdog watchdog(communicator);
    auto *values = reinterpret_cast<float *>(arena.base() + 4096);
    abi::Command first = allReduce(1), second = allReduce(1, 8192);
    Group one = groupOf({0, 1}, communicator.rank()), two = groupOf({0, 1}, communicator.rank(), 1);
    for (int round = 0; round < 50; ++round) {
      values[0] = values[1024] = float(communicator.rank() + 1);
      CommandHandle early = communicator.start(one, first), late;
      if (communicator.rank() == 0)
        late = communicator.start(two, second);
      communicator.wait(early);
      communicator.barrier();
      if (communicator.rank() == 1)
        late = communicator.start(two, second);
      communicator.wait(late);
      if (values[0] != 3 || values[1024] != 3)
        throw std::runtime_error("wrong sum");
    }
  });
  EXPECT_EQ(failures, std::vector<std::string>(2));
}

// Short commands on all channels at once, waited for in any order, whatever their sizes; and once more in their places.
TEST_P(Behaviour, ShortCommandsOfManyChannelsAreAllCarriedOut) {
  auto failures = runRanks(GetParam(), {2}, [](Communicator &communicator, Arena &arena) {
    Watchdog watchdog(communicator);
    auto *values = reinterpret_cast<float *>(arena.base() + 4096);
    std::vector<abi::Command> commands;
    std::vector<Group> groups;
    for (uint32_t channel = 0; channel < abi::MaximumChannels; ++channel) {
      commands.push_back(allReduce(100 + 900 * channel, 4096 + 32768 * channel));
      groups.push_back(groupOf({0, 1}, communicator.rank(), channel));
    }
    for (int round = 0; round < 50; ++round) {
      std::fill(values, values + 8192 * commands.size(), float(communicator.rank() + round));
      std::vector<CommandHandle> handles;
      for (size_t i = 0; i < commands.size(); ++i)
        handles.push_back(communicator.start(groups[i], commands[i]));
      for (size_t i = 0; i < commands.size(); ++i)
        communicator.wait(handles[(3 * i + round * communicator.rank()) % commands.size()]);
      for (size_t i = 0; i < commands.size(); ++i)
        if (values[8192 * i] != 1 + 2 * round || values[8192 * i + 99 + 900 * i] != 1 + 2 * round ||
            values[8192 * i + 100 + 900 * i] != communicator.rank() + round)
          throw std::runtime_error("wrong sum on channel " + std::to_string(i));
    }
  });
  EXPECT_EQ(failures, std::vector<std::string>(2));
}

// What is waited for at once queues up behind what is under way on its channel, and so does what is started: each
// doubles what the one before has left.
TEST_P(Behaviour, AChannelKeepsTheOrderOfStarts) {
  auto failures = runRanks(GetParam(), {2}, [](Communicator &communicator, Arena &arena) {
    auto *value = reinterpret_cast<float *>(arena.base() + 4096);
    Group group = groupOf({0, 1}, communicator.rank());
    abi::Command message = allReduce(1), large = allReduce(200000, 16384);
    for (int round = 0; round < 50; ++round) {
      *value = 1;
      std::vector<CommandHandle> handles;
      handles.push_back(communicator.start(group, large));
      handles.push_back(communicator.start(group, message));
      communicator.run(group, message);
      if (*value != 4)
        throw std::runtime_error("overtaken in round " + std::to_string(round));
      handles.push_back(communicator.start(group, message));
      for (const CommandHandle &handle : handles)
        communicator.wait(handle);
      communicator.run(group, message);
      if (*value != 16)
        throw std::runtime_error("overtaken at the end of round " + std::to_string(round));
    }
  });
  EXPECT_EQ(failures, std::vector<std::string>(2));
}

// Terms of different size in f32: another order of addition gives another sum.
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
      if (*value != 1) // in the order of ranks; any other gives 0
        throw std::runtime_error("sum " + std::to_string(*value));
    }
    ++flags[0];
  });
  EXPECT_EQ(failures, std::vector<std::string>(3));
  EXPECT_EQ(flags[0], 3);
}

// Each rank gives up while the other's channel waits for it: both must get away.
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

// Each rank hands on what it got, along the line and back, in two places and sizes, beside an all-reduce of all on
// another channel. What is sent may be changed after the wait.
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
        few[0] += 1000; // of which the sender must not hear
      }
      if (rank < 2)
        move(/*sends=*/true, 1);
      // Back to the first, cyclically: from the last it is one further.
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
  // One of the two may instead see the other leave.
  for (const std::string &failure : failures)
    EXPECT_THAT(failure,
                testing::AnyOf(HasSubstr("disagree about the collective of gradients"), HasSubstr("exit code 4")));
  EXPECT_THAT(failures, testing::Contains(HasSubstr("exit code 1: ranks ")));
}

TEST_P(Behaviour, PoisonReachesThoseWhoWaitWithItsReason) {
  auto failures = runRanks(GetParam(), {3}, [](Communicator &communicator, Arena &) {
    if (communicator.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(30)); // the others sleep by now
      communicator.poison("no space left for the checkpoint");
      return;
    }
    communicator.run(groupOf({0, 1, 2}, communicator.rank()), allReduce(10));
  });
  EXPECT_EQ(failures[1], "");
  for (int rank : {0, 2})
    EXPECT_THAT(failures[rank], AllOf(HasSubstr("exit code 4"), HasSubstr("rank 1"), HasSubstr("no space left")));
}

// Rank 0 waits for rank 1 only, which waits for rank 2, which is gone: everybody must name rank 2.
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
                         testing::Values(Bootstrap::Threads, Bootstrap::Processes, Bootstrap::NamedProcesses),
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
        while (true) { // until somebody dies
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
    kill(child, SIGKILL); // and is not reaped: its process number stays in use
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
  // One process short: rank 2 of 3.
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
  // Whoever's patience ends first tells the other.
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
