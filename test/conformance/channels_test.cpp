// What a communicator promises about handles and channels: commands in parallel, in order, and in time.
#include "runtime/abi/groups.h"
#include "test/conformance/behaviour.h"

#include <array>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <numeric>
#include <thread>

namespace dtc::test {
namespace {

// Rank 1 joins the collective only after rank 0 has continued computing after its start: if start waited for the
// collective, this would hang.
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

// Rank 1 starts a command on channel 1 and waits for it before it starts the one that rank 0 started first, on channel
// 0: if one blocked the other, this would hang. Numbers for the host overtake both.
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

// Several starts in a row on one channel, waited for when all are in progress, as in a bucket. Each has the same bits
// as alone, in a sum of many terms that rounds.
TEST_P(Behaviour, PartsHaveTheBitsThatTheyHaveAlone) {
  constexpr int Parts = 5, Ranks = 3;
  constexpr std::array<int, Parts> sizes = {1, 700, 64, 3000, 17};
  auto failures = runRanks(GetParam(), {Ranks}, [&](Communicator &communicator, Arena &arena) {
    Group group = groupOf({0, 1, 2}, communicator.rank());
    std::array<abi::Command, Parts> commands;
    for (int part = 0; part < Parts; ++part)
      commands[part] = allReduce(sizes[part], 4096 + 16384 * uint64_t(part));
    auto fill = [&] {
      for (int part = 0; part < Parts; ++part)
        for (int i = 0; i < sizes[part]; ++i)
          reinterpret_cast<float *>(arena.base() + 4096 + 16384 * part)[i] =
              1.0F / float(1 + i + 7 * part + 13 * communicator.rank());
    };
    auto results = [&] {
      std::vector<float> all;
      for (int part = 0; part < Parts; ++part) {
        auto *values = reinterpret_cast<float *>(arena.base() + 4096 + 16384 * part);
        all.insert(all.end(), values, values + sizes[part]);
      }
      return all;
    };
    fill();
    for (const abi::Command &command : commands)
      communicator.run(group, command);
    std::vector<float> alone = results();
    for (int round = 0; round < 20; ++round) {
      fill();
      std::array<CommandHandle, Parts> handles;
      for (int part = 0; part < Parts; ++part)
        handles[part] = communicator.start(group, commands[part]);
      communicator.handOver();
      for (const CommandHandle &handle : handles)
        communicator.wait(handle);
      if (results() != alone)
        throw std::runtime_error("other bits");
    }
  });
  EXPECT_EQ(failures, std::vector<std::string>(Ranks));
}

/// Gives up for a rank after ten seconds, so that a test for hangs ends.
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

/// `body` on two ranks, with the values that each has for sums; neither fails, nor hangs.
void onTwoRanks(Bootstrap bootstrap, const std::function<void(Communicator &, float *)> &body) {
  auto failures = runRanks(bootstrap, {2}, [&](Communicator &communicator, Arena &arena) {
    Watchdog watchdog(communicator);
    body(communicator, reinterpret_cast<float *>(arena.base() + 4096));
  });
  EXPECT_EQ(failures, std::vector<std::string>(2));
}

// What has been handed over is carried out while nobody here waits, and so is what precedes a number for the host.
TEST_P(Behaviour, WhatIsHandedOverMakesProgressByItself) {
  std::atomic<int> *flags = sharedFlags();
  onTwoRanks(GetParam(), [flags](Communicator &communicator, float *values) {
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
}

// Rank 0 waits for the second of two commands, which rank 1 starts only when the first is done; on each pair of
// channels.
TEST_P(Behaviour, WhoSleepsForOneCommandHoldsUpNoOther) {
  onTwoRanks(GetParam(), [](Communicator &communicator, float *values) {
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
}

// Three commands that run one after the other, as each alone would fill the cache, and two ranks that first wait for
// different ones of the later two: if each rank postponed a command until it waits for it, this would hang.
TEST_P(Behaviour, WhatIsPostponedIsCarriedOutForWhoWaitsForItFirst) {
  onTwoRanks(GetParam(), [](Communicator &communicator, float *values) {
    constexpr int elements = 128 << 10, commands = 3;
    std::fill_n(values, commands * elements, float(communicator.rank() + 1));
    abi::Command command[commands];
    CommandHandle handles[commands];
    for (int i = 0; i < commands; ++i) {
      command[i] = allReduce(elements, 4096 + i * elements * sizeof(float));
      handles[i] = communicator.start(groupOf({0, 1}, communicator.rank(), i), command[i]);
    }
    for (int i : communicator.rank() == 0 ? std::array{1, 2, 0} : std::array{2, 1, 0})
      communicator.wait(handles[i]);
    for (int i = 0; i < commands * elements; ++i)
      if (values[i] != 3)
        throw std::runtime_error("wrong sum at " + std::to_string(i));
  });
}

// Rank 0 has started a second command when it waits for the first, and rank 1 starts it only after they have met.
TEST_P(Behaviour, AWaitDoesNotWaitForOtherCommands) {
  onTwoRanks(GetParam(), [](Communicator &communicator, float *values) {
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
}

// Short commands on all channels at once, waited for in any order, whatever their sizes; then once more with the same
// buffers.
TEST_P(Behaviour, ShortCommandsOfManyChannelsAreAllCarriedOut) {
  onTwoRanks(GetParam(), [](Communicator &communicator, float *values) {
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
}

// A command that is waited for at once queues behind the others of its channel, and so does one that is started: each
// doubles the result of the one before.
TEST_P(Behaviour, AChannelKeepsTheOrderOfStarts) {
  if (GetParam() == Bootstrap::Staged)
    GTEST_SKIP() << "operands that are incomplete when their command starts, which nobody may rely on";
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

} // namespace
} // namespace dtc::test
