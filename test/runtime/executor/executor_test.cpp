// What running a list does.
#include "test/runtime/executor/hand_written.h"

#include <chrono>
#include <gmock/gmock.h>

namespace dtc::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// The only rank of a program, whose communicator records the calls that it gets.
struct Recorded {
  explicit Recorded(const abi::Manifest &manifest) : executor(manifest, communicator, device, arena) {}

  Recording communicator;
  Arena arena{16384, 4096};
  CpuDevice device{1, resolve};
  Executor executor;
};

TEST(ExecutorTest, LaunchesReadAndWriteNamedTensors) {
  Program program(1);
  program.launchScaleAdd(X, Y, 2.5, 0);
  for (int threads : {1, 3})
    onEveryRank(
        program,
        [](Executor &executor) {
          fill(executor, "x", 4.0F);
          executor.run("main");
          for (int i = 0; i < 16; ++i)
            EXPECT_EQ(executor.floats("y")[i], 10.0f + i);
        },
        threads);
}

/// A launch that finds its count in "n", which the launch before sets to 5.
static Program countedLaunch(int64_t count) {
  Program program(1);
  program.launchSetInteger(N)->add_scalars()->set_value(count);
  program.launchScaleAdd(X, Y, 1, 1);
  program.manifest.mutable_lists(0)->mutable_commands(1)->mutable_launch()->set_grid_count(N + 8);
  return program;
}

TEST(ExecutorTest, AGridEndsWhereTheCountInMemorySays) {
  for (int32_t count : {0, 5, 16})
    for (int threads : {1, 3})
      onEveryRank(
          countedLaunch(count),
          [count](Executor &executor) {
            fill(executor, "x", 10.0F);
            fill(executor, "y", -1.0F);
            executor.run("main");
            for (int i = 0; i < 16; ++i)
              EXPECT_EQ(executor.floats("y")[i], i < count ? 10.0F + float(i) : -1.0F);
            fill(executor, "y", NAN); // what the launch leaves is nothing that it made
            EXPECT_FALSE(executor.runChecked(executor.entryOf("main")));
          },
          threads, /*far=*/false);
}

TEST(ExecutorTest, ACountBeyondItsGridIsAnErrorThatNamesTheCommand) {
  for (int32_t count : {-1, 17})
    onEveryRank(
        countedLaunch(count),
        [count](Executor &executor) {
          fill(executor, "y", -1.0F);
          try {
            executor.run("main");
            ADD_FAILURE() << "it ran";
          } catch (const Error &error) {
            EXPECT_THAT(error.what(), HasSubstr("list 'main', command 1 (h.1): the count of its grid says " +
                                                std::to_string(count) + ", and the grid is 16"));
          }
          EXPECT_THAT(executor.floats("y"), testing::Each(-1.0F));
        },
        1, /*far=*/false);
}

TEST(ExecutorTest, ADeviceThatCannotReadCountsRefusesThem) {
  Program program = countedLaunch(5);
  Recording communicator;
  FarDevice device(resolve);
  std::unique_ptr<Memory> memory = device.allocate(16384, 4096);
  try {
    Executor executor(program.manifest, communicator, device, *memory);
    ADD_FAILURE() << "accepted";
  } catch (const Error &error) {
    EXPECT_EQ(error.exitCode(), ExitCode::BadInput);
    EXPECT_THAT(error.what(), HasSubstr("list 'main', command 1: the launch reads from memory how much of its grid is "
                                        "to run, which this device cannot do"));
  }
}

TEST(ExecutorTest, RankIndicesAreScaled) {
  Program program(4);
  abi::RankIndex *index = program.launchSetInteger(N)->add_scalars()->mutable_rank_index();
  index->set_scale(-100);
  abi::AxisRef *axis = index->add_axes();
  axis->set_axis("dp");
  axis->set_pre(2);
  axis->set_size(2);
  onEveryRank(program, [](Executor &executor) {
    executor.run("main");
    EXPECT_THAT(executor.integers("n"), testing::Each(executor.rank() % 2 * -100));
  });
}

// A transport that looks into the memory itself must find there the results of the work that the device was given
// before.
TEST(ExecutorTest, ACollectiveThatIsWaitedForAtOnceReadsWhatTheDeviceWrites) {
  Program program(2);
  program.launchScaleAdd(X, Y, 1.0, 0);
  program.start(Y, 1);
  program.wait(1);
  onEveryRank(program, [](Executor &executor) {
    for (float round : {1.0F, 5.0F}) {
      fill(executor, "x", round + float(executor.rank()));
      executor.run("main");
      EXPECT_EQ(executor.floats("y")[3], 2 * round + 1 + 2 * 3);
    }
  });
}

// Both collectives are in progress together and waited for in reverse order; the launch runs meanwhile. They may share
// a channel, and a later list may wait for one.
class Overlap : public testing::TestWithParam<std::tuple<uint32_t, bool>> {};

TEST_P(Overlap, CollectivesRunBesideComputeUntilTheirWaits) {
  auto [channel, later] = GetParam();
  Program program(3);
  program.start(Y, 7, 1);
  program.start(N, 8, channel, abi::I32);
  program.launchScaleAdd(X, X, 1.0, 0);
  program.wait(8);
  if (later)
    program.beginList("later");
  program.wait(7);
  onEveryRank(program, [later](Executor &executor) {
    for (int round = 0; round < 100; ++round) {
      fill(executor, "x", 0.0f);
      fill(executor, "y", float(executor.rank() + round));
      fill(executor, "n", 1);
      executor.run("main");
      if (later)
        executor.run("later");
      ASSERT_THAT(executor.floats("y"), testing::Each(3.0f + 3 * round));
      ASSERT_THAT(executor.integers("n"), testing::Each(3));
      ASSERT_EQ(executor.floats("x")[5], 5.0f);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Channels, Overlap, testing::Combine(testing::Values(0U, 1U), testing::Bool()));

// Before the device is given anything, and before the host continues, started commands are handed over.
TEST(ExecutorTest, StartsAreHandedOverBeforeOtherWork) {
  Program program(1);
  program.start(Y, 5, 1);
  program.start(N, 6, 0, abi::I32);
  program.launchScaleAdd(X, X, 1.0, 0);
  program.launchScaleAdd(X, X, 1.0, 0);
  program.wait(5);
  program.wait(6);
  Recorded rank(program.manifest);
  rank.executor.run("main");
  EXPECT_THAT(rank.communicator.calls,
              ElementsAre("start 5", "start 6", "hand over", "wait 5 of channel 1", "wait 6 of channel 0"));
}

// A command that is waited for at once is one call; everything else is waited for by its own handle, in whatever list.
TEST(ExecutorTest, HandlesGoFromStartsToTheirWaits) {
  Program program(1);
  program.start(Y, 5, 1);
  program.start(N, 6, 0, abi::I32);
  program.start(Y, 7, 0);
  program.wait(7);
  program.wait(5);
  program.beginList("later");
  program.wait(6);
  Recorded rank(program.manifest);
  for (int round = 0; round < 2; ++round) {
    rank.communicator.calls.clear();
    rank.executor.run("main");
    rank.executor.run("later");
    EXPECT_THAT(rank.communicator.calls,
                ElementsAre("start 5", "start 6", "run 7", "wait 5 of channel 1", "hand over", "wait 6 of channel 0"));
  }
}

// The part that is waited for last need not be the last to arrive; what runs meanwhile reads none of them.
TEST(ExecutorTest, OneWaitEndsAllPartsOfABucket) {
  Program program(3);
  program.start(Y, 7, 1)->set_more(true);
  program.start(Y + 64, 7, 1)->set_more(true);
  program.start(Y + 128, 7, 1);
  program.launchScaleAdd(X, X, 1.0, 0);
  program.beginList("later");
  program.wait(7);
  program.launchScaleAdd(Y, Y + 192, 1.0, 0);
  program.launchScaleAdd(Y + 64, Y + 256, 1.0, 0);
  program.launchScaleAdd(Y + 128, Y + 320, 1.0, 0);
  abi::Tensor sums = program.manifest.roles(0).tensors(1);
  *sums.mutable_local_shape()->Mutable(0) = 48;
  for (auto [name, address] : {std::pair("parts", Y), std::pair("read", Y + 192)}) {
    sums.set_name(name);
    sums.set_address(address);
    *program.manifest.mutable_roles(0)->add_tensors() = sums;
  }
  onEveryRank(program, [](Executor &executor) {
    for (int round = 0; round < 100; ++round) {
      std::vector<float> parts;
      for (int i = 0; i < 48; ++i)
        parts.push_back(float(i + executor.rank() + round));
      executor.write(executor.tensor("parts"), parts);
      executor.run("main");
      executor.run("later");
      std::vector<float> sums = executor.floats("parts"), read = executor.floats("read");
      for (int i = 0; i < 48; ++i) {
        ASSERT_EQ(sums[i], float(3 * (i + 1 + round)));
        ASSERT_EQ(read[i], sums[i] + float(i % 16));
      }
    }
  });
}

// Each part is waited for by its own handle, in a list that is decoded before the one that starts them.
TEST(ExecutorTest, PartsAreStartedInARowAndWaitedForTogether) {
  Program program(1);
  program.start(Y, 5, 1)->set_more(true);
  program.start(Y + 64, 5, 1);
  program.wait(5);
  program.start(N, 6, 0, abi::I32);
  program.wait(6);
  Recorded rank(program.manifest);
  for (int round = 0; round < 2; ++round) {
    rank.communicator.calls.clear();
    rank.executor.run("main");
    EXPECT_THAT(rank.communicator.calls,
                ElementsAre("start 5", "start 5", "wait 5 of channel 1", "wait 5 of channel 1", "run 6", "hand over"));
  }
}

// They end together: if each were reported, the time would count once for each of them.
TEST(ExecutorTest, PartsShareTheTimeOfTheirBucketByTheirBytes) {
  struct Recorder : Observer {
    void executed(const CommandEvent &event) override {
      if (event.command.has_start() && !event.isStart)
        times.emplace_back(event.begin, event.end);
    }
    std::vector<std::pair<int64_t, int64_t>> times;
  } recorder;
  Program program(1);
  program.start(Y, 5, 1)->set_more(true);
  abi::Collective &shorter = *program.start(Y + 64, 5, 1);
  shorter.set_chunk(shorter.chunk() / 2);
  program.wait(5);
  Recorded rank(program.manifest);
  rank.communicator.times = {1000, 1600};
  rank.executor.observe(&recorder);
  rank.executor.run("main");
  EXPECT_THAT(recorder.times, ElementsAre(std::pair(1000, 1400), std::pair(1400, 1600)));
}

// Two lists and three places: what one writes in a slot the other finds there, through a launch, a collective, a copy.
TEST(ExecutorTest, AnEntryWorksInThePlaceOfEachSpaceThatItNames) {
  constexpr uint64_t first = abi::addressOf(2, 0), second = abi::addressOf(3, 0);
  Program program(2);
  abi::Role &role = *program.manifest.mutable_roles(0);
  role.mutable_spaces(1)->set_stride(8192);
  addSpace(role, abi::Space::REGISTERED, 12288, 64, 4);
  addSpace(role, abi::Space::REGISTERED, 13312, 64, 4);
  program.launchScaleAdd(X, first, 1, 0);
  program.start(first, 1);
  program.launchScaleAdd(X, X, 0, 0); // beside it
  program.wait(1);
  abi::Copy &copy = *program.add()->mutable_copy();
  copy.set_input(first);
  copy.set_output(second);
  copy.set_elements(16);
  program.beginList("later");
  program.launchScaleAdd(second, Y, 1, 0);
  // Different places of the two spaces.
  auto in = [](abi::TimetableEntry entry, uint32_t place) {
    for (uint32_t each : {0U, 0U, place, 4 - place})
      entry.add_places(each);
    return entry;
  };
  for (const char *list : {"main", "later"})
    for (uint32_t place : {1, 3}) {
      abi::TimetableEntry &entry = addEntry(role, abi::stepTimetable, list);
      entry = in(entry, place);
    }
  onEveryRank(program, [&](Executor &executor) {
    auto entry = [&](const char *list, uint32_t place) {
      return place == 0 ? executor.entryOf(list) : in(executor.entryOf(list), place);
    };
    for (uint32_t place : {0, 1, 3}) {
      fill(executor, "x", 10.0F * static_cast<float>(place));
      executor.run(entry("main", place));
    }
    for (uint32_t place : {3, 0, 1}) {
      executor.run(entry("later", place));
      for (int i = 0; i < 16; ++i)
        ASSERT_EQ(executor.floats("y")[i], 20.0F * static_cast<float>(place) + 3.0F * static_cast<float>(i)) << place;
    }
    EXPECT_THROW(executor.run(entry("main", 2)), Error); // that no timetable mentions
  });
}

TEST(ExecutorTest, RanksPlayTheirRolesAndSendToEachOther) {
  Program program = lineOfTwo();
  for (abi::Role &role : *program.manifest.mutable_roles()) {
    abi::Tensor copied = role.tensors(1);
    copied.set_name("copied");
    copied.set_address(Y + 128);
    *role.add_tensors() = copied;
  }
  onEveryRank(program, [](Executor &executor) {
    for (int round = 0; round < 50; ++round) {
      fill(executor, "x", executor.rank() == 0 ? float(round) : -1.0F);
      fill(executor, "copied", -2.0F);
      executor.run(executor.rank() == 0 ? "main" : "receive");
      if (executor.rank() == 0)
        continue;
      for (int i = 0; i < 15; ++i)
        ASSERT_EQ(executor.floats("copied")[i], 2.0F * static_cast<float>(round) + static_cast<float>(i));
      ASSERT_EQ(executor.floats("copied")[15], -2.0F);
    }
  });
}

TEST(ExecutorTest, AnObserverSeesTransfersAndCopies) {
  struct Recorder : Observer {
    void executed(const CommandEvent &event) override {
      if (!event.isStart)
        indices.push_back(event.index);
      EXPECT_LE(event.begin, event.end);
    }
    std::vector<uint32_t> indices;
  };
  onEveryRank(lineOfTwo(), [](Executor &executor) {
    Recorder recorder;
    executor.observe(&recorder);
    executor.run(executor.rank() == 0 ? "main" : "receive");
    EXPECT_THAT(recorder.indices, executor.rank() == 0 ? ElementsAre(0, 1) : ElementsAre(0, 2));
  });
}

TEST(ExecutorTest, AnObserverSeesEveryCommandOnceWithItsTimes) {
  struct Recorder : Observer {
    void executed(const CommandEvent &event) override {
      EXPECT_EQ(event.list, "main");
      EXPECT_LE(event.begin, event.end);
      EXPECT_GT(event.begin, 0);
      (event.isStart ? starts : indices).push_back(event.index);
    }
    std::vector<uint32_t> indices, starts;
  } recorder;
  Program program(1);
  program.start(Y, 1, 1);
  program.launchScaleAdd(X, X, 1.0, 0);
  program.wait(1);
  program.start(Y, 2, 1); // nothing to overlap: its start does all the work, and there is no wait to be seen
  program.wait(2);
  onEveryRank(program, [&](Executor &executor) {
    recorder.indices.clear();
    recorder.starts.clear();
    executor.run("main");
    EXPECT_THAT(recorder.indices, testing::IsEmpty());
    executor.observe(&recorder);
    executor.run("main");
  });
  EXPECT_THAT(recorder.indices, ElementsAre(1, 0, 2, 3)) << "a collective is over right before its wait";
  EXPECT_THAT(recorder.starts, ElementsAre(0)) << "the other one is waited for at once";
}

/// A transport in the order of a device, which reports times by the numbers of the device's moments.
class InDeviceOrder final : public Communicator {
public:
  explicit InDeviceOrder(Device &device) : device(device) {}
  int rank() const override { return 0; }
  int size() const override { return 1; }
  CommunicatorCapabilities capabilities() const override { return {true, true, true, true, /*deviceOrder=*/true}; }
  CommandHandle start(const Group &group, const abi::Command &) override {
    auto number = [&] { return static_cast<int64_t>(device.mark()); };
    int64_t begin = number();
    return {group.channel, 1, std::make_shared<CommandTimes>(begin, number())};
  }
  CommandTimes wait(const CommandHandle &handle) override { return *handle.times; }
  std::vector<int64_t> exchange(int64_t value) override { return {value}; }
  void poison(std::string_view) noexcept override {}

private:
  Device &device;
};

// The numbers are those of the list that starts; its moments are taken when it is over.
TEST(ExecutorTest, WhatALaterListWaitsForWasWhenItWasStarted) {
  struct Recorder : Observer {
    void executed(const CommandEvent &event) override {
      if (event.command.has_start() && !event.isStart)
        end = event.end;
    }
    int64_t end = 0;
  } recorder;
  Program program(1);
  for (int i = 0; i < 5; ++i)
    program.launchScaleAdd(X, X, 1.0, 0);
  program.start(Y, 5, 1);
  program.beginList("later");
  program.wait(5);
  Arena arena(16384, 4096);
  CpuDevice device(1, resolve);
  InDeviceOrder communicator(device);
  Executor executor(program.manifest, communicator, device, arena);
  executor.observe(&recorder);
  executor.run("main");
  int64_t between = std::chrono::steady_clock::now().time_since_epoch().count();
  executor.run("later");
  EXPECT_GT(recorder.end, 0);
  EXPECT_LE(recorder.end, between);
}

TEST(ExecutorTest, UnknownNamesAndWrongTypesAreErrors) {
  Program program(1);
  onEveryRank(program, [](Executor &executor) {
    EXPECT_THROW(executor.run("other"), Error);
    EXPECT_TRUE(executor.hasTensor("x"));
    EXPECT_THROW(executor.tensor("z"), Error);
    EXPECT_THROW(executor.integers("x"), Error);
    EXPECT_THROW(executor.write(executor.tensor("x"), std::vector<int32_t>(16)), Error);
    EXPECT_THROW(executor.write(executor.tensor("x"), std::vector<float>(15)), Error);
    EXPECT_THROW(executor.setScalar("x", 1), Error);
    EXPECT_THROW(executor.floats("n"), Error);
    EXPECT_THROW(executor.scalar("x"), Error);
  });
}

TEST(ExecutorTest, AParametersNameMeansTheParameterNotItsMoments) {
  Program program(1);
  abi::Role &role = *program.manifest.mutable_roles(0);
  abi::Tensor moment = role.tensors(0);
  moment.set_kind(abi::Tensor::SLOT);
  moment.set_slot("exp_avg");
  moment.set_address(Y);
  *role.add_tensors() = moment;
  onEveryRank(program, [](Executor &executor) { EXPECT_EQ(executor.tensor("x").address(), X); });
}

} // namespace
} // namespace dtc::test
