// All-to-alls that send as many rows as counts say, over every bootstrap that supports them.
#include "test/conformance/behaviour.h"

#include "runtime/abi/element_type.h"
#include "runtime/support/error.h"

#include <cstring>
#include <gmock/gmock.h>
#include <stdexcept>

namespace dtc::test {
namespace {

constexpr uint64_t Input = 4096 + 4, Output = (3 << 20) + 12, Counts = 6 << 20, Received = (6 << 20) + 64;
constexpr auto Untouched = std::byte(0xab);

struct CountsCase {
  abi::DataType type;
  int64_t middle, chunk;
  bool splitFirst;
};

// Rows of some bytes, and more rows than connections buffer.
const CountsCase Cases[] = {{abi::F32, 37, 19, true},
                            {abi::F32, 37, 19, false},
                            {abi::I8, 5, 3, false},
                            {abi::BF16, 11, 9001, true},
                            {abi::BF16, 11, 9001, false}};

abi::Command commandFor(const CountsCase &test, bool receives) {
  abi::Command command;
  abi::Collective &message = *command.mutable_start();
  message.set_kind(abi::Collective::ALL_TO_ALL);
  message.set_type(test.type);
  message.set_outer(1);
  message.set_middle(test.middle);
  message.set_chunk(test.chunk);
  message.set_split_first(test.splitFirst);
  message.set_input(Input);
  message.set_output(Output);
  message.set_counts(Counts);
  if (receives)
    message.set_received(Received);
  message.set_value("tokens");
  return command;
}

/// How many rows one rank sends another: none, all, and numbers in between.
int32_t countOf(const CountsCase &test, int from, int to, int round) {
  return static_cast<int32_t>((from * 5 + to * 3 + round * 7) % 4 * test.middle / 3);
}

/// A byte of the row that one rank sends another as number m.
std::byte byteOf(int from, int to, int64_t m, int64_t at) {
  return std::byte((from * 101 + to * 37 + m * 13 + at * 7) % 251 % 0xab);
}

/// Where row m of a member's part begins, in the operand or the result: in [member][middle] or [middle][member].
int64_t rowAt(const CountsCase &test, bool isMajor, int64_t member, int64_t m, int64_t members) {
  return isMajor ? member * test.middle + m : m * members + member;
}

void run(Communicator &communicator, Arena &arena, const Group &group, const CountsCase &test, int round) {
  abi::Command command = commandFor(test, /*receives=*/round > 0);
  int rank = communicator.rank();
  int64_t members = group.size(), bytes = test.chunk * abi::elementType(test.type).bytes;
  auto *counts = reinterpret_cast<int32_t *>(arena.base() + Counts);
  std::memset(arena.base() + Output, int(Untouched), members * test.middle * bytes);
  std::memset(arena.base() + Received, int(Untouched), members * sizeof(int32_t));
  for (int64_t q = 0; q < members; ++q) {
    counts[q] = countOf(test, rank, group.ranks[q], round);
    for (int64_t m = 0; m < test.middle; ++m)
      for (int64_t at = 0; at < bytes; ++at)
        arena.base()[Input + rowAt(test, test.splitFirst, q, m, members) * bytes + at] =
            byteOf(rank, group.ranks[q], m, at);
  }
  communicator.run(group, command);
  for (int64_t q = 0; q < members; ++q) {
    int32_t sent = countOf(test, group.ranks[q], rank, round), received;
    std::memcpy(&received, arena.base() + Received + q * sizeof(received), sizeof(received));
    if (received != (round > 0 ? sent : int32_t(0xabababab)))
      throw std::runtime_error("received says " + std::to_string(received) + " for " + std::to_string(sent));
    for (int64_t m = 0; m < test.middle; ++m)
      for (int64_t at = 0; at < bytes; ++at)
        if (arena.base()[Output + rowAt(test, !test.splitFirst, q, m, members) * bytes + at] !=
            (m < sent ? byteOf(group.ranks[q], rank, m, at) : Untouched))
          throw std::runtime_error("row " + std::to_string(m) + " of " + std::to_string(group.ranks[q]) + " is wrong");
  }
}

class CountsOver : public testing::TestWithParam<Bootstrap> {};

TEST_P(CountsOver, SayWhatIsSentAndWhatStays) {
  for (const std::vector<int> &ranks : {std::vector{0, 1, 2, 3}, {3, 0}, {0, 3, 1}, {2}})
    onMembers(GetParam(), ranks, 2, [](Communicator &communicator, Arena &arena, const Group &group) {
      ASSERT_TRUE(communicator.capabilities().unevenParts);
      for (const CountsCase &test : Cases)
        for (int round = 0; round < 4; ++round)
          run(communicator, arena, group, test, round);
    });
}

// As in the runtime, a failing rank tells the others; these may hear of it before they look at the counts.
TEST_P(CountsOver, BeyondTheirBoundsStopAllRanksBeforeAnythingIsWritten) {
  for (int32_t wrong : {-1, 38, 1 << 30}) {
    auto failures = runRanks(GetParam(), {4}, [&](Communicator &communicator, Arena &arena) {
      CountsCase test = Cases[0];
      abi::Command command = commandFor(test, /*receives=*/true);
      int64_t bytes = 4 * test.middle * test.chunk * abi::elementType(test.type).bytes;
      std::memset(arena.base() + Output, int(Untouched), bytes);
      std::memset(arena.base() + Received, int(Untouched), 16);
      auto *counts = reinterpret_cast<int32_t *>(arena.base() + Counts);
      std::fill_n(counts, 4, 37);
      if (communicator.rank() == 1)
        counts[2] = wrong;
      try {
        communicator.run(groupOf({0, 1, 2, 3}, communicator.rank()), command);
      } catch (const Error &error) {
        auto isUntouched = [](std::byte value) { return value == Untouched; };
        if (!std::all_of(arena.base() + Output, arena.base() + Output + bytes, isUntouched) ||
            !std::all_of(arena.base() + Received, arena.base() + Received + 16, isUntouched))
          throw std::runtime_error("something was written");
        communicator.poison(error.what());
        throw;
      }
    });
    std::string what = "in the all-to-all of tokens rank 1 is to send rank 2 " + std::to_string(wrong) +
                       " rows, and counts lie between 0 and 37";
    EXPECT_THAT(failures, Each(HasSubstr(what)));
  }
}

INSTANTIATE_TEST_SUITE_P(All, CountsOver,
                         testing::Values(Bootstrap::Threads, Bootstrap::Processes, Bootstrap::Staged, Bootstrap::Hosts,
                                         Bootstrap::TwoHosts, Bootstrap::JobProcesses),
                         [](const auto &info) { return testing::PrintToString(info.param); });

TEST(Counts, OfOneRankAloneAreADisagreement) {
  for (Bootstrap bootstrap : {Bootstrap::Threads, Bootstrap::Hosts}) {
    auto failures = runRanks(bootstrap, {2}, [](Communicator &communicator, Arena &) {
      abi::Command command = commandFor(Cases[0], false);
      if (communicator.rank() == 1)
        command.mutable_start()->clear_counts();
      communicator.run(groupOf({0, 1}, communicator.rank()), command);
    });
    EXPECT_THAT(failures, Each(AnyOf(HasSubstr("disagree about the collective of tokens"), HasSubstr("was lost"))));
    EXPECT_THAT(failures, testing::Contains(HasSubstr("disagree about the collective of tokens")));
  }
}

} // namespace
} // namespace dtc::test
