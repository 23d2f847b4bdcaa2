// A server and the members of its job, as threads.
#include "runtime/job/member.h"
#include "runtime/liveness/whereabouts.h"
#include "test/runtime/job/support.h"

#include <atomic>
#include <cstdio>
#include <fstream>
#include <gmock/gmock.h>
#include <memory>
#include <thread>

using namespace dtc;
using namespace dtc::job;
using namespace dtc::test;

namespace {

class Job {
public:
  explicit Job(int world, Patience patience = {.start = 5s, .watchdog = 5s}) : world(world), patience(patience) {
    ServerOptions options;
    options.listen = {"127.0.0.1", 0};
    options.token = key;
    options.world = world;
    options.patience = patience;
    options.describe = [](int, const CommandPlace &place) { return "list " + std::to_string(place.list); };
    server = std::make_unique<Server>(options);
  }

  MemberOptions optionsOf(int rank) const {
    MemberOptions options;
    options.server = server->endpoint();
    options.token = key;
    options.rank = rank;
    options.world = world;
    options.program = "program";
    options.patience = patience;
    return options;
  }

  /// Runs `body` as each of these ranks; the errors of all.
  std::vector<std::string> run(
      const std::vector<MemberOptions> &members,
      const std::function<void(Membership &)> &body = [](Membership &) {}) const {
    std::vector<std::string> errors(members.size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < members.size(); ++i)
      threads.emplace_back([&, i] { errors[i] = errorOf([&] { body(*joinJob(members[i])); }); });
    for (std::thread &thread : threads)
      thread.join();
    return errors;
  }
  std::vector<std::string> runAll(const std::function<void(Membership &)> &body) const {
    std::vector<MemberOptions> members;
    for (int rank = 0; rank < world; ++rank)
      members.push_back(optionsOf(rank));
    return run(members, body);
  }

  Key key = randomKey();
  int world;
  Patience patience;
  std::unique_ptr<Server> server;
};

TEST(Job, ItsMembersMeetAndExchangeNumbers) {
  Job job(4);
  auto errors = job.runAll([&](Membership &member) {
    EXPECT_EQ(member.hosts(), std::vector<int>(4, 0));
    for (int round = 0; round < 50; ++round) {
      std::vector<int64_t> expected;
      for (int rank = 0; rank < 4; ++rank)
        expected.push_back(rank * 1000 + round);
      ASSERT_EQ(member.exchange(member.rank() * 1000 + round), expected);
    }
  });
  EXPECT_THAT(errors, testing::Each(""));
  EXPECT_EQ(job.server->failure(), std::nullopt);
}

TEST(Job, RanksThatMeetGetOn) {
  Job job(2, {.start = 5s, .watchdog = 1500ms});
  auto errors = job.runAll([](Membership &member) {
    Whereabouts place;
    member.show(&place);
    place.enter({0, 17});
    for (int round = 0; round < 10; ++round) {
      if (member.rank() == 1)
        std::this_thread::sleep_for(300ms);
      member.exchange(0);
    }
    member.show(nullptr);
  });
  EXPECT_THAT(errors, testing::Each(""));
}

TEST(Job, NamesWhoDoesNotCome) {
  Job job(4, {.start = 500ms, .watchdog = 5s});
  for (const std::string &error : job.run({job.optionsOf(0), job.optionsOf(2)}))
    EXPECT_THAT(error, AllOf(StartsWith("4: rank 1 was lost"), HasSubstr("ranks 1, 3 of 4 did not come within")));
}

void awaitCount(const std::atomic<int> &counter, int count) {
  while (counter < count)
    std::this_thread::sleep_for(1ms);
}

TEST(Job, SaysThatNobodyListens) {
  Job job(2, {.start = 300ms, .watchdog = 5s});
  MemberOptions lonely = job.optionsOf(1);
  job.server.reset();
  EXPECT_THAT(job.run({lonely})[0], AllOf(StartsWith("1: cannot join the job at 127.0.0.1:"), HasSubstr("the launcher"),
                                          HasSubstr("refused")));
}

TEST(Job, ASecondProcessOfARankIsTurnedAwayAndTheFirstStays) {
  Job job(2);
  std::atomic<int> met = 0;
  std::thread late([&] {
    awaitCount(met, 1);
    EXPECT_THAT(
        job.run({job.optionsOf(1)})[0],
        AllOf(StartsWith("3: "), HasSubstr("rank 1 has already joined, as process"), HasSubstr("started twice")));
    met = 2;
  });
  auto errors = job.runAll([&](Membership &member) {
    member.exchange(0);
    if (member.rank() == 0)
      met = 1;
    awaitCount(met, 2);
    member.exchange(0);
  });
  late.join();
  EXPECT_THAT(errors, testing::Each(""));
}

TEST(Job, MixedProgramsEndIt) {
  Job job(3);
  std::vector<MemberOptions> members = {job.optionsOf(0), job.optionsOf(1), job.optionsOf(2)};
  members[2].program = "other";
  std::vector<std::string> errors = job.run(members);
  // The last to come is the odd one.
  int refused = 0, lost = 0;
  for (const std::string &error : errors) {
    EXPECT_THAT(error, HasSubstr("another program")) << error;
    refused += error.starts_with("3: ");
    lost += error.starts_with("4: ");
  }
  EXPECT_GE(refused, 1);
  EXPECT_GE(lost, 1);
}

TEST(Job, WhoeverIsMixedUpWithACompleteJobIsRefusedAndItGoesOn) {
  Job job(2);
  MemberOptions program = job.optionsOf(1), count = job.optionsOf(1);
  program.program = "another";
  count.world = 3;
  auto errors = job.runAll([&](Membership &member) {
    if (member.rank() == 0)
      for (const MemberOptions &stranger : {program, count})
        EXPECT_THAT(job.run({stranger})[0], StartsWith("3: the job at"));
    std::this_thread::sleep_for(100ms); // for what the server would say of it
    EXPECT_EQ(member.exchange(member.rank()), (std::vector<int64_t>{0, 1}));
  });
  EXPECT_THAT(errors, testing::Each(""));
}

TEST(Job, OtherCountsVersionsAndStartsAreRefused) {
  Job job(2);
  MemberOptions more = job.optionsOf(1), outside = job.optionsOf(1), old = job.optionsOf(1);
  more.world = 3;
  EXPECT_THAT(job.run({more})[0], HasSubstr("it was started as one of 3 ranks, the job has 2"));
  outside.rank = 2;
  Job fresh(2);
  outside.server = fresh.server->endpoint();
  outside.token = fresh.key;
  EXPECT_THAT(fresh.run({outside})[0], HasSubstr("rank 2 is not one of 0 to 1"));
  old.generation = 7;
  old.server = fresh.server->endpoint();
  old.token = fresh.key;
  EXPECT_THAT(fresh.run({old})[0], HasSubstr("start 8 of the job, which is at start 1"));
}

TEST(Job, WhatOneSaysOfAFailureAllHear) {
  Job job(3);
  auto errors = job.runAll([](Membership &member) {
    std::atomic<int> told = -1;
    member.onFailure([&](const FailureNotice &notice) { told = notice.rank; });
    if (member.rank() == 1)
      member.fail(1, "it gave up");
    EXPECT_TRUE(awaitReadable(member.failureSignal(), in(5s)));
    for (auto end = in(5s); told < 0 && Clock::now() < end;)
      std::this_thread::sleep_for(1ms);
    EXPECT_EQ(told, 1);
    member.fail(2, "a consequence");
    member.exchange(0);
  });
  EXPECT_THAT(errors, testing::Each("4: rank 1 was lost: it gave up"));
}

TEST(Job, WhoeverComesAfterAFailureHearsOfItAtOnce) {
  Job job(2);
  job.server->fail(1, "its launcher could not start it");
  std::this_thread::sleep_for(300ms); // it has been told to all that were there: nobody
  EXPECT_EQ(job.run({job.optionsOf(0)})[0], "4: rank 1 was lost: its launcher could not start it");
}

TEST(Job, AMemberThatLeavesTooEarlyIsNamed) {
  Job job(2);
  auto errors = job.runAll([](Membership &member) {
    if (member.rank() == 0)
      member.exchange(0);
  });
  EXPECT_THAT(errors[0], AllOf(StartsWith("4: rank 1 was lost"), HasSubstr("ended while its peers went on")));
  EXPECT_EQ(errors[1], "");
}

/// Two hosts of two ranks each.
std::vector<MemberOptions> onTwoHosts(const Job &job) {
  std::vector<MemberOptions> members;
  for (int rank = 0; rank < 4; ++rank) {
    members.push_back(job.optionsOf(rank));
    members.back().host = rank < 2 ? "first" : "second";
  }
  return members;
}

TEST(Job, RanksOfDifferentHostsAreConnectedByGroupAndChannel) {
  Job job(4);
  auto errors = job.run(onTwoHosts(job), [](Membership &member) {
    EXPECT_EQ(member.hosts(), (std::vector<int>{0, 0, 1, 1}));
    std::vector<std::vector<int>> groups = {{0, 1, 2, 3}, {0, 2}, {3, 1}};
    for (uint32_t channel = 0; channel < groups.size(); ++channel) {
      const std::vector<int> &ranks = groups[channel];
      auto self = std::ranges::find(ranks, member.rank());
      if (self == ranks.end())
        continue;
      std::vector<SharedDescriptor> links = member.connect({ranks, int(self - ranks.begin()), channel});
      auto words = [&](int from, int to) {
        return std::to_string(from) + ">" + std::to_string(to) + "@" + std::to_string(channel);
      };
      for (size_t i = 0; i < ranks.size(); ++i) {
        ASSERT_EQ(bool(links[i]), ranks[i] / 2 != member.rank() / 2);
        if (links[i])
          sendText(links[i]->get(), words(member.rank(), ranks[i]));
      }
      for (size_t i = 0; i < ranks.size(); ++i)
        if (links[i]) {
          ASSERT_TRUE(awaitReadable(links[i]->get(), in(5s)));
          char text[64] = {};
          ASSERT_GT(recv(links[i]->get(), text, sizeof(text), 0), 0);
          EXPECT_EQ(text, words(ranks[i], member.rank()));
        }
      member.exchange(0);
    }
  });
  EXPECT_THAT(errors, testing::Each(""));
}

/// The ports on which processes of this machine listen at 127.0.0.1.
std::vector<int> listeningPorts() {
  std::vector<int> ports;
  std::ifstream table("/proc/self/net/tcp");
  for (std::string line; std::getline(table, line);) {
    unsigned address, port, state;
    if (std::sscanf(line.c_str(), "%*d: %x:%x %*x:%*x %x", &address, &port, &state) == 3 && state == 0x0a &&
        address == 0x0100007f)
      ports.push_back(static_cast<int>(port));
  }
  return ports;
}

/// It knows the token, but names another job: its table had another nonce.
TEST(Job, ALinkOfAnotherJobIsNotTaken) {
  Job job(4);
  std::vector<Session> strangers;
  auto errors = job.run(onTwoHosts(job), [&](Membership &member) {
    if (member.rank() == 0) {
      LinkHello hello;
      hello.set_job("another one");
      hello.set_from(0);
      hello.set_to(2);
      hello.set_channel(5);
      for (int port : listeningPorts())
        errorOf([&] { // for the rank that admits it, which rank 2 does
          strangers.push_back(
              knock(connectTo({"127.0.0.1", port}, "", in(1s)), job.key, hello.SerializeAsString(), in(500ms)));
        });
      EXPECT_GE(strangers.size(), 4u);
    }
    member.exchange(0);
    if (member.rank() % 2 == 0) {
      std::vector<SharedDescriptor> links = member.connect({{0, 2}, member.rank() / 2, 5});
      int link = links[1 - member.rank() / 2]->get();
      sendText(link, "true");
      ASSERT_TRUE(awaitReadable(link, in(5s)));
      EXPECT_EQ(receiveText(link), "true");
    }
    member.exchange(0);
  });
  EXPECT_THAT(errors, testing::Each(""));
}

TEST(Job, NamesTheRankThatDoesNotConnect) {
  Job job(4, {.start = 500ms, .watchdog = 5s});
  auto errors = job.run(onTwoHosts(job), [&](Membership &member) {
    if (member.rank() == 2)
      EXPECT_THAT(errorOf([&] { member.connect({{0, 2}, 1, 0}); }),
                  AllOf(StartsWith("1: "), HasSubstr("rank 0 on "), HasSubstr("did not connect")));
    member.exchange(0);
  });
  EXPECT_THAT(errors, testing::Each(""));
}

TEST(Job, TheEndOfItsServerIsNoticed) {
  Job job(2);
  std::atomic<int> joined = 0;
  std::thread end([&] {
    awaitCount(joined, 2);
    std::this_thread::sleep_for(50ms);
    job.server.reset(); // which waits for its members, for a while
  });
  auto errors = job.runAll([&](Membership &member) {
    ++joined;
    if (member.rank() == 0)
      std::this_thread::sleep_for(100ms);
    else
      member.exchange(0);
  });
  end.join();
  EXPECT_THAT(errors[1], StartsWith("4: "));
}

} // namespace
