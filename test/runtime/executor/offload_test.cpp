// Copies in parallel with launches, and memory of the host.
#include "test/runtime/executor/hand_written.h"

#include <algorithm>
#include <gmock/gmock.h>

namespace dtc::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Besides the tensors of Program: 64 bytes of the host's memory, "h", for the values of one tensor.
class OffloadTest : public testing::Test {
protected:
  OffloadTest() {
    abi::Role &role = *program.manifest.mutable_roles(0);
    role.set_host_bytes(64);
    host = abi::addressOf(addSpace(role, abi::Space::HOST, 0, 64), 0);
  }

  /// Of 16 elements; with a token it is started.
  abi::Copy &copy(uint64_t from, uint64_t to, std::optional<uint32_t> token = {}, uint32_t channel = 0) {
    abi::Copy &copy = *program.add()->mutable_copy();
    copy.set_input(from);
    copy.set_output(to);
    copy.set_elements(16);
    if (token)
      copy.set_token(*token);
    copy.set_channel(channel);
    return copy;
  }

  Program program{1};
  uint64_t host = 0;
};

// The source is overwritten as soon as it has been copied, and the target before the copy comes back: a copy that comes
// early, late or not at all shows. Rounds beyond the second are sequences where the device supports them.
TEST_F(OffloadTest, WhatIsMovedToTheHostComesBack) {
  program.launchScaleAdd(X, Y, 2, 0);
  copy(Y, host, 7, 1);
  program.launchScaleAdd(X, X, 0, 0); // beside it
  program.wait(7);
  program.launchScaleAdd(X, Y, -1, 0);
  copy(host, Y, 8, 2);
  program.wait(8);
  program.launchScaleAdd(Y, Y, 1, 0);
  onEveryRank(program, [](Executor &executor) {
    for (float round = 0; round < 100; ++round) {
      fill(executor, "x", round);
      executor.run("main");
      std::vector<float> y = executor.floats("y");
      for (int i = 0; i < 16; ++i)
        ASSERT_EQ(y[i], 2 * round + 2 * static_cast<float>(i));
    }
  });
}

TEST_F(OffloadTest, CopiesInTheOrderOfLaunchesReachTheHostToo) {
  program.launchScaleAdd(X, Y, 3, 0);
  copy(Y, host);
  program.launchScaleAdd(X, Y, 0, 0);
  copy(host, X);
  onEveryRank(program, [](Executor &executor) {
    for (float round = 1; round < 5; ++round) {
      fill(executor, "x", round);
      executor.run("main");
      EXPECT_EQ(executor.floats("x")[5], 3 * round + 5);
      EXPECT_EQ(executor.floats("y")[5], 5);
    }
  });
}

// A later list waits for what one list starts. Places have their own memory and tokens: two are in progress at once.
TEST_F(OffloadTest, ALaterListMayWaitForACopyOfItsPlace) {
  abi::Role &role = *program.manifest.mutable_roles(0);
  role.set_host_bytes(3 * 64);
  role.mutable_spaces(2)->set_places(3);
  role.mutable_spaces(1)->set_stride(8192);
  uint64_t stash = abi::addressOf(addSpace(role, abi::Space::REGISTERED, 12288, 64, 3), 0);
  program.launchScaleAdd(X, stash, 1, 0);
  copy(stash, host, 7).set_token_space(2);
  program.beginList("later");
  abi::Wait &wait = *program.add()->mutable_wait();
  wait.set_token(7);
  wait.set_token_space(2);
  program.launchScaleAdd(X, stash, 0, 0);
  copy(host, Y);
  auto in = [](abi::TimetableEntry entry, uint32_t place) {
    entry.clear_places();
    for (uint32_t each : {0U, 0U, place, place})
      entry.add_places(each);
    return entry;
  };
  entriesOf(program.manifest).Clear();
  for (uint32_t place : {0, 1, 2})
    for (const char *list : {"main", "later"}) {
      abi::TimetableEntry &entry = addEntry(role, abi::stepTimetable, list);
      entry = in(entry, place);
    }
  onEveryRank(program, [&](Executor &executor) {
    auto valueOf = [](int round, uint32_t place) { return static_cast<float>(10 * round) + static_cast<float>(place); };
    auto begin = [&](int round, uint32_t place) {
      fill(executor, "x", valueOf(round, place));
      executor.run(in(executor.entryOf("main"), place));
    };
    auto end = [&](int round, uint32_t place) {
      executor.run(in(executor.entryOf("later"), place));
      ASSERT_EQ(executor.floats("y")[3], valueOf(round, place) + 3) << round << " " << place;
    };
    for (int round = 0; round < 20; ++round) {
      begin(round, 2);
      begin(round, 0);
      end(round, 2);
      begin(round, 1);
      end(round, 0);
      end(round, 1);
    }
  });
}

// An executor that is destroyed while a copy is in progress leaves nobody at work in its memory.
TEST_F(OffloadTest, WhatIsUnderWayWhenTheExecutorGoesIsGivenUp) {
  constexpr int64_t elements = int64_t(1) << 22;
  abi::Role &role = *program.manifest.mutable_roles(0);
  role.set_arena_bytes(16384 + 4 * elements);
  role.set_host_bytes(4 * elements);
  role.mutable_spaces(2)->set_stride(4 * elements);
  uint64_t large = abi::addressOf(addSpace(role, abi::Space::REGISTERED, 16384, 4 * elements), 0);
  for (uint32_t token : {1, 2, 3})
    copy(large, host, token).set_elements(elements);
  program.beginList("later");
  for (uint32_t token : {1, 2, 3})
    program.wait(token);
  for (int i = 0; i < 3; ++i)
    onEveryRank(program, [](Executor &executor) { executor.run("main"); });
}

TEST_F(OffloadTest, ThereIsAsMuchOfTheHostsMemoryAsTheRoleNeeds) {
  EXPECT_THAT(refusalOf(program), HasSubstr("there are 0 bytes of the host's memory, the program's role needs 64"));
}

TEST_F(OffloadTest, AnObserverSeesACopyAtItsStartAndWhenItIsOver) {
  struct Recorder : Observer {
    void executed(const CommandEvent &event) override {
      EXPECT_LE(event.begin, event.end);
      EXPECT_GT(event.begin, 0);
      events.push_back(std::string(event.list) + " " + std::to_string(event.index) + (event.isStart ? " begins" : ""));
      if (event.command.has_copy())
        (event.isStart ? started : copied) = event;
    }
    struct Times {
      int64_t begin = 0, end = 0;
      Times &operator=(const CommandEvent &event) {
        begin = event.begin;
        end = event.end;
        return *this;
      }
    } started, copied;
    std::vector<std::string> events;
  };
  copy(Y, host, 7);
  program.launchScaleAdd(X, X, 1, 0);
  program.beginList("later");
  program.launchScaleAdd(X, X, 1, 0);
  program.wait(7);
  onEveryRank(program, [](Executor &executor) {
    auto run = [&] {
      for (const char *list : {"main", "later"})
        executor.run(list);
    };
    Recorder recorder;
    run();
    executor.observe(&recorder);
    run();
    EXPECT_THAT(recorder.events, ElementsAre("main 0 begins", "main 1", "later 0", "main 0", "later 1"));
    EXPECT_GE(recorder.copied.begin, recorder.started.begin);
    recorder.events.clear();
    executor.observe(nullptr);
    executor.run("main");
    executor.observe(&recorder); // nobody knows when that copy was
    executor.run("later");
    EXPECT_THAT(recorder.events, ElementsAre("later 0", "later 1"));
    recorder.events.clear();
    executor.run("main");
    executor.observe(nullptr);
    executor.observe(&recorder);
    executor.run("later");
    EXPECT_THAT(recorder.events, ElementsAre("main 0 begins", "main 1", "later 0", "main 0", "later 1"));
  });
}

// What was written is observed once it is complete: by the wait.
TEST_F(OffloadTest, WhatACopyHasWrittenIsShownByItsWait) {
  program.launchScaleAdd(X, Y, 1, 0);
  copy(Y, host, 7);
  program.launchScaleAdd(X, X, 1, 0);
  program.wait(7);
  onEveryRank(program, [](Executor &executor) {
    fill(executor, "x", 4.0F);
    std::vector<uint32_t> commands;
    std::vector<float> shown(16);
    executor.runShown(executor.entryOf("main"), [&](uint32_t command, std::span<const std::byte> written) {
      commands.push_back(command);
      ASSERT_EQ(written.size(), 64U);
      std::memcpy(shown.data(), written.data(), 64);
      if (command == 3)
        EXPECT_EQ(shown[6], 10) << "of the host's memory";
    });
    EXPECT_THAT(commands, ElementsAre(0, 2, 3));
  });
}

} // namespace
} // namespace dtc::test
