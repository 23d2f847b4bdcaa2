// What a communicator between hosts promises besides what all do: failures on one host are reported on the other,
// everybody names the same rank, and broken connections hang nobody.
#include "runtime/abi/commands.h"
#include "runtime/abi/element_type.h"
#include "runtime/comm/local/in_process.h"
#include "runtime/support/error.h"
#include "test/conformance/behaviour.h"

#include <bit>
#include <chrono>
#include <cstring>
#include <fstream>
#include <gmock/gmock.h>
#include <limits>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <numeric>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace dtc::test {
namespace {

void sleepShortly() { std::this_thread::sleep_for(std::chrono::milliseconds(30)); }

std::vector<std::string> run(const FakeJob &job, const std::vector<int> &hosts, const RankBody &body) {
  return runHosts(job, hosts, {static_cast<int>(hosts.size())}, {}, body);
}

// A large term and its opposite are on one host: added first, they cancel without losing digits of the other host's
// sum.
TEST(BetweenHosts, SumsAreFormedWithinHostsFirst) {
  auto failures = run(FakeJob({0, 0, 1, 1}), {0, 0, 1, 1}, [](Communicator &communicator, Arena &arena) {
    EXPECT_EQ(communicator.capabilities().sumOrder, SumOrder::HostsFirst);
    constexpr float terms[] = {1, 0, 1e8F, -1e8F};
    int rank = communicator.rank();
    auto *values = reinterpret_cast<float *>(arena.base() + 4096);
    for (int elements : {1, 500000}) {
      std::fill_n(values, elements, terms[rank]);
      communicator.run(groupOf({0, 1, 2, 3}, rank), allReduce(elements));
      EXPECT_EQ(std::count(values, values + elements, 1.0F), elements);
    }
    // The hosts have different numbers of members.
    if (rank == 1)
      return;
    std::fill_n(values, 500000, terms[rank]);
    communicator.run(groupOf({0, 2, 3}, rank), allReduce(500000));
    EXPECT_EQ(std::count(values, values + 500000, 0.0F), 500000);
  });
  EXPECT_EQ(failures, std::vector<std::string>(4));
}

/// Element `i` of a rank's input: small, so that any order of additions gives the same sum.
int termOf(int rank, int64_t i) { return static_cast<int>((i * 7 + rank * 3) % 11); }

void checkCollectives(Communicator &communicator, Arena &arena, abi::DataType type) {
  auto write = [type](std::byte *at, float value) {
    auto half = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
    type == abi::F32 ? std::memcpy(at, &value, sizeof(value)) : std::memcpy(at, &half, sizeof(half));
  };
  int rank = communicator.rank(), ranks = communicator.size();
  std::vector<int> everybody(ranks);
  std::iota(everybody.begin(), everybody.end(), 0);
  auto width = static_cast<int64_t>(abi::elementType(type).bytes);
  std::byte *input = arena.base() + 4096, *output = arena.base() + (4 << 20);
  using Collective = abi::Collective;
  constexpr int64_t chunk = 30007, rows = 3;
  for (auto kind : {Collective::ALL_REDUCE, Collective::REDUCE_SCATTER, Collective::ALL_GATHER}) {
    abi::Command command = allReduce(chunk);
    command.mutable_start()->set_kind(kind);
    command.mutable_start()->set_type(type);
    command.mutable_start()->set_outer(rows);
    command.mutable_start()->set_output(4 << 20);
    for (int64_t i = 0; i < abi::inputElements(command.start(), ranks); ++i)
      write(input + i * width, static_cast<float>(termOf(rank, i)));
    communicator.run(groupOf(everybody, rank), command);
    for (int64_t i = 0; i < abi::outputElements(command.start(), ranks); ++i) {
      int64_t row = i / chunk, column = i % chunk;
      int expected = 0;
      if (kind == Collective::ALL_GATHER)
        expected = termOf(static_cast<int>(row % ranks), row / ranks * chunk + column);
      else
        for (int other : everybody)
          expected += termOf(other, kind == Collective::ALL_REDUCE ? i : (row * ranks + rank) * chunk + column);
      std::byte bytes[4];
      write(bytes, static_cast<float>(expected));
      if (std::memcmp(output + i * width, bytes, width) != 0)
        throw std::runtime_error("wrong element " + std::to_string(i) + " of kind " + std::to_string(kind));
    }
  }
}

// Operands span several segments, and several rounds of gathering.
TEST(BetweenHosts, CollectivesOfAnyNumberOfHostsAndMembers) {
  const std::vector<int> shapes[] = {
      {0, 0, 1, 1, 2, 2}, {0, 0, 0, 1, 1, 1}, {0, 1, 2, 0, 1, 2}, {0, 0, 1, 2}, {0, 0, 0, 1, 1}};
  for (const std::vector<int> &hosts : shapes)
    for (abi::DataType type : {abi::F32, abi::BF16}) {
      auto failures = run(FakeJob(hosts), hosts, [&](Communicator &communicator, Arena &arena) {
        checkCollectives(communicator, arena, type);
      });
      EXPECT_EQ(failures, std::vector<std::string>(hosts.size()));
    }
}

const HostsOptions AllHashed = {.hashedUpTo = std::numeric_limits<double>::infinity()},
                   NothingHashed = {.hashedUpTo = 0};

TEST(BetweenHosts, CollectivesOverLinksThatAreHashed) {
  for (const std::vector<int> &hosts : {std::vector{0, 1}, {0, 0, 1, 1, 2, 2}, {0, 0, 0, 1, 1}})
    for (HostsOptions options : {AllHashed, HostsOptions{.segmentBytes = 1000, .hashedUpTo = AllHashed.hashedUpTo}}) {
      auto failures =
          runHosts(FakeJob(hosts), hosts, {static_cast<int>(hosts.size())}, options,
                   [](Communicator &communicator, Arena &arena) { checkCollectives(communicator, arena, abi::F32); });
      EXPECT_EQ(failures, std::vector<std::string>(hosts.size()));
    }
}

/// Two ranks add up while a bit between them is flipped; returns what each reported.
std::vector<std::string> sumOverADamagedLink(const HostsOptions &options, int elements) {
  FakeJob job(hostOfItsOwn(2));
  job.interpose(0, 1);
  return runHosts(job, hostOfItsOwn(2), {.ranks = 2}, options, [&](Communicator &communicator, Arena &arena) {
    auto *values = reinterpret_cast<float *>(arena.base() + 4096);
    std::fill_n(values, elements, 1.0F);
    abi::Command first = allReduce(10), command = allReduce(elements);
    try {
      communicator.run(groupOf({0, 1}, communicator.rank()), first); // this also measures the link
      communicator.barrier();
      job.damage();
      communicator.barrier();
      communicator.run(groupOf({0, 1}, communicator.rank()), command);
      communicator.barrier();
    } catch (const std::exception &error) {
      communicator.poison(error.what());
      throw;
    }
    if (std::count(values + 10, values + elements, 2.0F) != elements - 10)
      throw std::runtime_error("silently wrong");
  });
}

// In a small collective and in a large one: TCP alone would have accepted it.
TEST(BetweenHosts, ABitThatTurnsOverOnTheWayIsNoticed) {
  for (int elements : {1000, 500000}) {
    auto failures = sumOverADamagedLink(AllHashed, elements);
    auto damage =
        HasSubstr("for the collective of gradients came damaged, over the link between 127.0.0.1 and 127.0.0.1");
    for (int rank : {0, 1})
      EXPECT_THAT(
          failures[rank],
          AnyOf(AllOf(HasSubstr("exit code 1: what rank " + std::to_string(1 - rank) + " sent to rank "), damage),
                AllOf(HasSubstr("exit code 4: rank"), damage)));
  }
  EXPECT_THAT(sumOverADamagedLink(NothingHashed, 500000), testing::Contains("silently wrong"));
}

// The file in which they meet holds what they deposit for each other.
TEST(BetweenHosts, CollectivesOfProcesses) {
  HostsJob job({0, 0, 1, 1}, {4},
               [&](Communicator &communicator, Arena &arena) { checkCollectives(communicator, arena, abi::F32); });
  EXPECT_EQ(job.processes().join(), std::vector<std::string>(4));
}

// Ranks 0 and 3 have all their memory, the others get theirs while they write to it, which makes them slower.
TEST(BetweenHosts, WhatIsLaidDownForSlowNeighboursIsLeftThere) {
  constexpr int64_t elements = 1 << 20;
  FakeJob job(twoHosts(4));
  auto failures = runHosts(job, twoHosts(4), {.ranks = 4, .arenaBytes = 24 << 20}, {},
                           [](Communicator &communicator, Arena &arena) {
                             int rank = communicator.rank();
                             auto *values = reinterpret_cast<int32_t *>(arena.base() + 4096), *all = values + elements;
                             for (int64_t i = 0; i < elements; ++i)
                               values[i] = static_cast<int32_t>(i * 4 + rank);
                             if (rank == 0 || rank == 3)
                               std::fill_n(all, 4 * elements, -1);
                             abi::Command command = allReduce(elements);
                             command.mutable_start()->set_kind(abi::Collective::ALL_GATHER);
                             command.mutable_start()->set_type(abi::I32);
                             command.mutable_start()->set_output(4096 + elements * sizeof(int32_t));
                             communicator.run(groupOf({0, 1, 2, 3}, rank), command);
                             for (int64_t i = 0; i < 4 * elements; ++i)
                               if (all[i] != i % elements * 4 + i / elements)
                                 throw std::runtime_error("wrong element " + std::to_string(i));
                           });
  EXPECT_EQ(failures, std::vector<std::string>(4));
}

TEST(BetweenHosts, GroupsOfAChannelShareTheConnectionBetweenTwoRanks) {
  FakeJob job(hostOfItsOwn(3));
  auto failures = run(job, hostOfItsOwn(3), [](Communicator &communicator, Arena &arena) {
    auto *value = reinterpret_cast<float *>(arena.base() + 4096);
    *value = 1;
    abi::Command message = allReduce(1);
    for (uint32_t channel : {0, 0, 1}) {
      communicator.run(groupOf({0, 1, 2}, communicator.rank(), channel), message);
      if (communicator.rank() < 2)
        communicator.run(groupOf({1, 0}, communicator.rank(), channel), message);
    }
  });
  EXPECT_EQ(failures, std::vector<std::string>(3));
  EXPECT_EQ(job.connections(0, 1), 2);
  EXPECT_EQ(job.connections(2, 1), 2);
}

TEST(BetweenHosts, LittleIsUnderWayToWhoIsNear) {
  using std::chrono::microseconds;
  EXPECT_EQ(bytesUnderWay(microseconds(0)), 128 << 10);
  EXPECT_EQ(bytesUnderWay(microseconds(50)), 800 << 10);
  EXPECT_EQ(bytesUnderWay(microseconds(1000)), std::nullopt);

  FakeJob job(hostOfItsOwn(2));
  std::shared_ptr<Membership> member = job.join(0);
  std::vector<SharedDescriptor> connections = member->connect(groupOf({0, 1}, 0));
  int socket = connections[1]->get(), before = 0, after = 0;
  tcp_info info = {};
  socklen_t size = sizeof(info), width = sizeof(after);
  ASSERT_EQ(getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size), 0);
  getsockopt(socket, SOL_SOCKET, SO_SNDBUF, &before, &width);
  limitBytesUnderWay(socket);
  getsockopt(socket, SOL_SOCKET, SO_SNDBUF, &after, &width);
  std::optional<int> limit = bytesUnderWay(microseconds(info.tcpi_min_rtt));
  int granted = 0;
  std::ifstream("/proc/sys/net/core/wmem_max") >> granted;
  EXPECT_EQ(after, limit ? 2 * std::min(*limit, granted) : before); // the system doubles the value for its own needs
}

// A packet wakes nobody while much is still to come, but the last requested bytes do.
TEST(BetweenHosts, IsWokenForManyBytesAtOnce) {
  Direction in;
  in.runs.emplace_back(Strided(nullptr, 1 << 20), 100 << 10);
  EXPECT_EQ(leastWorthWaking(in), 1); // the header shows whether the peer runs the same command
  in.note(sizeof(in.header));
  EXPECT_EQ(leastWorthWaking(in), 64 << 10);
  in.note(64 << 10);
  EXPECT_EQ(leastWorthWaking(in), 36 << 10); // more may not arrive by now
  in.note(30 << 10);
  EXPECT_EQ(leastWorthWaking(in), 1);
}

// Both ends see it, and all three name one of them.
TEST(BetweenHosts, ABrokenConnectionIsTheSameRanksToEverybody) {
  FakeJob job(hostOfItsOwn(3));
  auto failures = run(job, hostOfItsOwn(3), [&](Communicator &communicator, Arena &) {
    Group group = groupOf({0, 1, 2}, communicator.rank());
    abi::Command message = allReduce(100);
    communicator.run(group, message);
    if (communicator.rank() == 1) {
      sleepShortly(); // the others are asleep by now
      job.disconnect(0, 2);
    }
    communicator.run(group, message); // ranks 0 and 2 may already have exchanged everything for it
    communicator.run(group, message);
  });
  EXPECT_THAT(failures, Each(AllOf(HasSubstr("exit code 4"), AnyOf(HasSubstr("rank 0 was"), HasSubstr("rank 2 was")))));
  EXPECT_THAT(failures, Each(failures[0]));
}

// Rank 0 waits for a rank on another host, rank 1 for one on its own host, rank 2 for everybody. Nobody leaves before
// all have heard: leaving would be noticed by itself.
TEST(BetweenHosts, AFailureThatTheJobTellsWakesWhoeverWaits) {
  std::atomic<int> *flags = sharedFlags();
  FakeJob job({0, 0, 0, 1});
  auto awaitAll = [flags] {
    ++flags[0];
    for (auto begin = std::chrono::steady_clock::now(); flags[0] < 4; std::this_thread::yield())
      if (std::chrono::steady_clock::now() > begin + std::chrono::seconds(5))
        throw std::runtime_error("somebody has not heard");
  };
  auto failures = run(job, {0, 0, 0, 1}, [&](Communicator &communicator, Arena &) {
    int rank = communicator.rank();
    try {
      if (rank == 0)
        communicator.run(groupOf({0, 3}, rank), allReduce(100));
      if (rank == 1)
        communicator.run(groupOf({1, 2}, rank), allReduce(100));
      if (rank == 2)
        communicator.barrier();
    } catch (const PeerLostError &) {
      awaitAll();
      throw;
    }
    sleepShortly();
    job.fail(3, "it stopped");
    awaitAll();
  });
  EXPECT_EQ(failures[3], "");
  failures.pop_back();
  EXPECT_THAT(failures, Each(HasSubstr("exit code 4: rank 3 was lost: it stopped")));
}

// Rank 1 leaves. Rank 0 on the same host waits for it in shared memory, and rank 2 on another host waits for rank 0.
TEST(BetweenHosts, AFailureWithinAHostIsToldToTheOthers) {
  FakeJob job({0, 0, 1});
  auto failures = run(job, {0, 0, 1}, [&](Communicator &communicator, Arena &) {
    int rank = communicator.rank();
    if (rank == 0)
      communicator.run(groupOf({0, 1}, rank), allReduce(100));
    if (rank == 2)
      communicator.run(groupOf({0, 2}, rank), allReduce(100));
  });
  EXPECT_EQ(failures[1], "");
  for (int rank : {0, 2})
    EXPECT_THAT(failures[rank], HasSubstr("exit code 4: rank 1 was lost: it ended"));
}

// A rank that polls notices too, and gets the rank's number in the job.
TEST(BetweenHosts, PoisonIsSeenByWhoAsks) {
  std::atomic<int> *flags = sharedFlags();
  FakeJob job({0, 1, 1});
  auto failures = run(job, {0, 1, 1}, [&](Communicator &communicator, Arena &) {
    communicator.checkPeers();
    communicator.barrier();
    if (communicator.rank() == 1) {
      communicator.poison("disk full");
      flags[0] = 1;
      return;
    }
    while (flags[0] == 0)
      std::this_thread::yield();
    communicator.checkPeers();
  });
  EXPECT_EQ(failures[1], "");
  for (int rank : {0, 2})
    EXPECT_THAT(failures[rank], HasSubstr("exit code 4: rank 1 was lost: disk full"));
}

// Rank 0 leaves in the middle of a command that rank 1 has not heard of, and on whose connection rank 1 never looks.
TEST(BetweenHosts, ARankLeavesWhileItsPeerTakesNoNotice) {
  std::atomic<int> *flags = sharedFlags();
  FakeJob job(hostOfItsOwn(2));
  std::thread rankZero([&] {
    Arena arena(8 << 20, 4096);
    InProcessJob host(1, {0});
    static abi::Command message = allReduce(1000000);
    {
      HostsCommunicator communicator(job.join(0), host.joinArenas(0, arena));
      communicator.start(groupOf({0, 1}, 0), message);
      sleepShortly();
    }
    flags[0] = 1;
  });
  std::shared_ptr<Membership> other = job.join(1);
  std::vector<SharedDescriptor> connections = other->connect(groupOf({0, 1}, 1));
  EXPECT_TRUE(connections[0]);
  for (auto begin = std::chrono::steady_clock::now(); flags[0] == 0;)
    if (std::chrono::steady_clock::now() > begin + std::chrono::seconds(10)) {
      ADD_FAILURE() << "it waits for its own thread";
      break;
    }
  connections.clear();
  other = nullptr;
  rankZero.join();
}

// Large operands on all channels, each of several segments, every one larger than what connections buffer.
TEST(BetweenHosts, ChannelsMoveLargeOperandsSideBySide) {
  constexpr int elements = 250001, commands = 4;
  auto failures = run(FakeJob({0, 1, 1}), {0, 1, 1}, [](Communicator &communicator, Arena &arena) {
    auto *values = reinterpret_cast<float *>(arena.base() + 4096);
    std::vector<abi::Command> messages;
    for (int i = 0; i < commands; ++i)
      messages.push_back(allReduce(elements, 4096 + i * elements * sizeof(float)));
    for (int round = 0; round < 3; ++round) {
      for (int i = 0; i < commands * elements; ++i)
        values[i] = static_cast<float>(i % 1000 + communicator.rank() * round);
      std::vector<CommandHandle> handles;
      for (int i = 0; i < commands; ++i)
        handles.push_back(communicator.start(groupOf({0, 1, 2}, communicator.rank(), i), messages[i]));
      for (int i : {2, 0, 3, 1})
        communicator.wait(handles[i]);
      for (int i = 0; i < commands * elements; ++i)
        if (values[i] != static_cast<float>(3 * (i % 1000) + 3 * round))
          throw std::runtime_error("wrong sum at " + std::to_string(i));
    }
  });
  EXPECT_EQ(failures, std::vector<std::string>(3));
}

// Every rank that waits, in shared memory, over a connection or for a number, names the rank that was killed.
TEST(BetweenHosts, AKilledRankIsNamedByAll) {
  std::atomic<int> *flags = sharedFlags();
  HostsJob job({0, 0, 1, 1}, {4}, [flags](Communicator &communicator, Arena &) {
    int rank = communicator.rank();
    communicator.barrier();
    communicator.run(groupOf({0, 1, 2, 3}, rank), allReduce(1000));
    flags[rank] = 1;
    if (rank == 1)
      pause();
    if (rank == 0)
      communicator.run(groupOf({0, 1}, rank), allReduce(1000));
    if (rank == 2)
      communicator.run(groupOf({0, 1, 2, 3}, rank), allReduce(1000000));
    communicator.barrier();
  });
  for (int rank = 0; rank < 4; ++rank)
    while (flags[rank] == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  sleepShortly();
  auto begin = std::chrono::steady_clock::now();
  job.processes().kill(1);
  auto failures = job.processes().join();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  EXPECT_EQ(failures[1], "signal 9");
  for (int rank : {0, 2, 3})
    EXPECT_THAT(failures[rank], HasSubstr("exit code 4: rank 1"));
  std::filesystem::remove_all(std::filesystem::path(freshName()).parent_path());
}

} // namespace
} // namespace dtc::test
