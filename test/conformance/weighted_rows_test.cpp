// Reductions of rows that have logarithms of their weights, over every bootstrap that supports them, against the
// formula of manifest.proto in long double.
#include "test/conformance/behaviour.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

namespace dtc::test {
namespace {

constexpr float Infinity = std::numeric_limits<float>::infinity();
constexpr uint64_t RowValues = 4096 + 4, Results = (3 << 20) + 12, Logs = 6 << 20;
constexpr uint64_t ResultLogs = (6 << 20) + (1 << 19) + 8;

struct RowsCase {
  const char *name;
  abi::Collective::Kind kind;
  int64_t outer, chunk;
  bool inPlace;
};

// Rows: fewer than ranks, with more bytes than are staged between hosts, and so many that they take several rounds.
const RowsCase Cases[] = {
    {"all-reduce", abi::Collective::ALL_REDUCE, 37, 19, false},
    {"all-reduce in place", abi::Collective::ALL_REDUCE, 1001, 64, true},
    {"all-reduce of two rows", abi::Collective::ALL_REDUCE, 2, 700, false},
    {"all-reduce of large rows", abi::Collective::ALL_REDUCE, 5, 20001, true},
    {"all-reduce of logarithms alone", abi::Collective::ALL_REDUCE, 50, 0, true},
    {"all-reduce of nothing", abi::Collective::ALL_REDUCE, 0, 16, true},
    {"reduce-scatter", abi::Collective::REDUCE_SCATTER, 501, 64, false},
    {"reduce-scatter of large rows", abi::Collective::REDUCE_SCATTER, 3, 20001, false},
};

abi::Command commandFor(const RowsCase &test) {
  abi::Command command;
  abi::Collective &message = *command.mutable_start();
  message.set_kind(test.kind);
  message.set_reduction(abi::LOG_SUM_EXP);
  message.set_outer(test.outer);
  message.set_chunk(test.chunk);
  message.set_input(RowValues);
  message.set_output(test.inPlace ? RowValues : Results);
  message.set_log_input(Logs);
  message.set_log_output(test.inPlace ? Logs : ResultLogs);
  return command;
}

uint32_t mix(int64_t a, int64_t b) {
  uint32_t mixed = (uint32_t(a) * 2654435761U + uint32_t(b) * 40503U + 12345) * 2246822519U;
  return mixed ^ mixed >> 15;
}

/// The logarithm of the weight of a rank's row. Some weights are 0, some rows have only weights of 0, and some
/// logarithms are too large to exponentiate.
float logOf(int rank, int64_t row) {
  if (row % 7 == 3 || mix(rank, row) % 3 == 0)
    return -Infinity;
  float log = static_cast<float>(static_cast<int32_t>(mix(row, rank + 77))) * 0x1p-27F; // -16 to 16
  return row % 5 == 1 ? log + 5000 : row % 5 == 2 ? log - 5000 : log;
}

/// The contents of rows of weight 0 must not affect the result.
float valueOf(int rank, int64_t row, int64_t i) {
  if (logOf(rank, row) == -Infinity)
    return i % 2 == 0 ? std::numeric_limits<float>::quiet_NaN() : Infinity;
  return static_cast<float>(static_cast<int32_t>(mix(row * 31 + rank, i))) * 0x1p-28F; // -8 to 8
}

float *floatsAt(Arena &arena, uint64_t offset) { return reinterpret_cast<float *>(arena.base() + offset); }

void fill(Arena &arena, const RowsCase &test, int rank, int64_t members) {
  int64_t rows = test.outer * (test.kind == abi::Collective::REDUCE_SCATTER ? members : 1);
  for (int64_t row = 0; row < rows; ++row) {
    floatsAt(arena, Logs)[row] = logOf(rank, row);
    for (int64_t i = 0; i < test.chunk; ++i)
      floatsAt(arena, RowValues)[row * test.chunk + i] = valueOf(rank, row, i);
  }
}

/// The formula: row `row` of every member's operand.
class Expected {
public:
  Expected(const std::vector<int> &group, int64_t row) : group(group), row(row) {
    for (int rank : group)
      largest = std::max(largest, static_cast<long double>(logOf(rank, row)));
    for (int rank : group)
      if (logOf(rank, row) != -Infinity)
        sum += expl(logOf(rank, row) - largest);
  }
  long double log() const { return sum == 0 ? -Infinity : largest + logl(sum); }
  long double value(int64_t i) const {
    long double value = 0;
    for (int rank : group)
      if (logOf(rank, row) != -Infinity)
        value += valueOf(rank, row, i) * expl(logOf(rank, row) - largest) / sum;
    return value;
  }

private:
  const std::vector<int> &group;
  int64_t row;
  long double largest = -Infinity, sum = 0;
};

/// Equal up to one rounding to f32, and no NaN.
bool isNear(float got, long double expected) {
  return got == expected || std::abs(got - expected) <= 1e-6L + 0x1p-23L * std::abs(expected);
}

void check(Arena &arena, const RowsCase &test, const abi::Collective &message, const Group &group) {
  for (int64_t row = 0; row < test.outer; ++row) {
    bool scatters = test.kind == abi::Collective::REDUCE_SCATTER;
    Expected expected(group.ranks, scatters ? row * group.size() + group.self : row);
    bool isRight = isNear(floatsAt(arena, message.log_output())[row], expected.log());
    for (int64_t i = 0; i < test.chunk; ++i)
      isRight = isRight && isNear(floatsAt(arena, message.output())[row * test.chunk + i], expected.value(i));
    if (!isRight)
      throw std::runtime_error(std::string(test.name) + ": wrong row " + std::to_string(row));
  }
}

class WeightedRowsOver : public testing::TestWithParam<Bootstrap> {};

TEST_P(WeightedRowsOver, FollowTheFormula) {
  for (const std::vector<int> &ranks : {std::vector{0, 1, 2, 3}, {2, 0}, {0, 3, 1}, {1}})
    onMembers(GetParam(), ranks, 1, [](Communicator &communicator, Arena &arena, const Group &group) {
      ASSERT_TRUE(communicator.capabilities().weightedRows);
      for (const RowsCase &test : Cases) {
        abi::Command command = commandFor(test);
        for (int round = 0; round < 2; ++round) {
          fill(arena, test, communicator.rank(), group.size());
          communicator.run(group, command);
          check(arena, test, command.start(), group);
        }
      }
    });
}

INSTANTIATE_TEST_SUITE_P(All, WeightedRowsOver,
                         testing::Values(Bootstrap::Threads, Bootstrap::Processes, Bootstrap::Staged, Bootstrap::Hosts,
                                         Bootstrap::TwoHosts),
                         [](const auto &info) { return testing::PrintToString(info.param); });

// Wherever the members are, they add in their own order.
TEST(WeightedRows, HaveTheSameBitsInMemoryAndBetweenHosts) {
  const std::vector<int> everybody = {0, 1, 2, 3};
  using Bits = std::vector<std::vector<std::byte>>; // of each rank
  auto bitsOver = [&](Bootstrap bootstrap, const RowsCase &test) {
    Bits bits(4);
    abi::Command command = commandFor(test);
    auto failures = runRanks(bootstrap, {4}, [&](Communicator &communicator, Arena &arena) {
      fill(arena, test, communicator.rank(), 4);
      communicator.run(groupOf(everybody, communicator.rank()), command);
      const std::byte *values = arena.base() + command.start().output();
      const std::byte *logs = arena.base() + command.start().log_output();
      std::vector<std::byte> &own = bits[communicator.rank()];
      own.assign(values, values + test.outer * test.chunk * sizeof(float));
      own.insert(own.end(), logs, logs + test.outer * sizeof(float));
    });
    EXPECT_EQ(failures, std::vector<std::string>(4));
    return bits;
  };
  for (const RowsCase &test : Cases) {
    Bits first = bitsOver(Bootstrap::Threads, test);
    for (int rank = 1; rank < 4 && test.kind == abi::Collective::ALL_REDUCE; ++rank)
      EXPECT_EQ(first[rank], first[0]) << test.name;
    for (Bootstrap bootstrap : {Bootstrap::Hosts, Bootstrap::TwoHosts})
      EXPECT_EQ(bitsOver(bootstrap, test), first) << test.name << " over " << bootstrap;
  }
}

/// A NaN must reach the result.
TEST(WeightedRows, WeightsThatAreNoNumbersMakeNone) {
  for (float weight : {Infinity, std::numeric_limits<float>::quiet_NaN()}) {
    auto failures = runRanks(Bootstrap::Threads, {3}, [weight](Communicator &communicator, Arena &arena) {
      RowsCase test{"", abi::Collective::ALL_REDUCE, 1, 3, false};
      abi::Command command = commandFor(test);
      std::fill_n(floatsAt(arena, RowValues), 3, 1.0F);
      *floatsAt(arena, Logs) = communicator.rank() == 1 ? weight : 0;
      communicator.run(groupOf({0, 1, 2}, communicator.rank()), command);
      for (int i = 0; i < 3; ++i)
        EXPECT_TRUE(std::isnan(floatsAt(arena, Results)[i]));
      EXPECT_TRUE(std::isnan(*floatsAt(arena, ResultLogs)));
    });
    EXPECT_EQ(failures, std::vector<std::string>(3));
  }
}

} // namespace
} // namespace dtc::test
