// Collectives of several parts: each part gives the same bits as alone, whatever the other parts are.
#include "runtime/abi/commands.h"
#include "runtime/abi/element_type.h"
#include "runtime/abi/groups.h"
#include "runtime/abi/mesh.h"
#include "runtime/support/error.h"
#include "test/conformance/behaviour.h"
#include "test/conformance/gpu_rank.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <gmock/gmock.h>
#include <optional>
#include <sstream>

namespace dtc::test {
namespace {

struct BucketCase {
  const char *name;
  abi::Collective::Kind kind;
  abi::Reduction reduction;
  abi::DataType type;
  bool inPlace;
};

const BucketCase BucketCases[] = {
    {"AllReduceInPlace", abi::Collective::ALL_REDUCE, abi::SUM, abi::F32, true},
    {"AllReduceBf16", abi::Collective::ALL_REDUCE, abi::SUM, abi::BF16, false},
    {"AllReduceMax", abi::Collective::ALL_REDUCE, abi::MAX, abi::F32, false},
    {"ReduceScatter", abi::Collective::REDUCE_SCATTER, abi::SUM, abi::F32, false},
    {"ReduceScatterBf16", abi::Collective::REDUCE_SCATTER, abi::SUM, abi::BF16, false},
    {"AllGather", abi::Collective::ALL_GATHER, abi::SUM, abi::F32, false},
    {"AllGatherI8", abi::Collective::ALL_GATHER, abi::SUM, abi::I8, false},
    {"AllToAll", abi::Collective::ALL_TO_ALL, abi::SUM, abi::F32, false},
    {"Broadcast", abi::Collective::BROADCAST, abi::SUM, abi::F32, false},
};

/// Rows and their chunks: fewer elements than there are ranks, none at all, less than a cache line, and more than is in
/// transit at a time; the first and the last are small in one case and large in the other.
using Sizes = std::vector<std::pair<int, int>>;
const Sizes SizesOfParts[] = {
    {{1, 3}, {1, 20011}, {2, 1}, {0, 16}, {5, 67}, {1, 1}},
    {{1, 9001}, {3, 2}, {1, 30011}},
    Sizes(abi::MaximumParts, {1, 24}), // the maximum number of parts, all of which fit into a message
};

constexpr uint64_t FirstOffset = 4096 + 4;

/// The command of a part whose operand and results start at `at`; advances `at` past both.
abi::Command commandFor(const BucketCase &test, std::pair<int, int> size, int members, uint64_t &at) {
  abi::Command command;
  abi::Collective &message = startOf(command, test);
  message.set_outer(size.first);
  message.set_middle(test.kind == abi::Collective::ALL_TO_ALL ? 2 : 1);
  message.set_chunk(size.second);
  message.set_root(static_cast<uint32_t>(members - 1));
  message.set_input(at);
  at += abi::bytesOf(test.type, static_cast<uint64_t>(abi::inputElements(message, members))) + 12;
  message.set_output(test.inPlace ? message.input() : at);
  if (!test.inPlace)
    at += abi::bytesOf(test.type, static_cast<uint64_t>(abi::outputElements(message, members))) + 12;
  return command;
}

/// Reproducible numbers whose sums round, so that order shows.
void fillInput(const abi::Command &command, int members, int rank, Arena &arena) {
  const abi::Collective &message = command.start();
  const abi::ElementType &type = abi::elementType(message.type());
  for (int64_t i = 0; i < abi::inputElements(message, members); ++i) {
    auto mixed = (static_cast<uint32_t>(i) * 2654435761U + static_cast<uint32_t>(rank) * 40503U +
                  static_cast<uint32_t>(message.input()) * 977U) *
                 2246822519U;
    auto bits = std::bit_cast<uint32_t>(static_cast<float>(static_cast<int32_t>(mixed)) * 0x1p-20F);
    bits = type.bytes == 2 ? bits >> 16 : bits;
    std::memcpy(arena.base() + message.input() + i * type.bytes, &bits, type.bytes);
  }
}

std::vector<std::byte> resultOf(const abi::Command &command, int members, const Arena &arena) {
  const abi::Collective &message = command.start();
  const std::byte *begin = arena.base() + message.output();
  return {begin, begin + abi::bytesOf(message.type(), static_cast<uint64_t>(abi::outputElements(message, members)))};
}

void runParts(Communicator &communicator, const Group &group, std::vector<abi::Command> &commands) {
  std::vector<CommandHandle> handles;
  for (size_t i = 0; i < commands.size(); ++i) {
    commands[i].mutable_start()->set_more(i + 1 < commands.size());
    handles.push_back(communicator.start(group, commands[i]));
  }
  for (const CommandHandle &handle : handles)
    communicator.wait(handle);
}

class Buckets : public testing::TestWithParam<std::tuple<Bootstrap, int>> {};

TEST_P(Buckets, GiveEachPartTheBitsItHasAlone) {
  int ranks = std::get<1>(GetParam());
  abi::Manifest program;
  abi::Axis &axis = *program.mutable_mesh()->add_axes();
  axis.set_name("x");
  axis.set_size(ranks);
  abi::AxisRef &ref = *program.add_groups()->add_axes();
  ref.set_axis("x");
  ref.set_pre(1);
  ref.set_size(ranks);
  auto failures = runRanks(std::get<0>(GetParam()), {ranks}, [&](Communicator &host, Arena &arena) {
    std::optional<GpuRank> gpu;
    if (std::get<0>(GetParam()) == Bootstrap::Gpus)
      gpu.emplace(host, arena, program, NcclCommunicator::Options{});
    Communicator &communicator = gpu ? *gpu : host;
    Group group = Mesh(program.mesh()).group(communicator.rank(), program.groups(0));
    for (const BucketCase &test : BucketCases)
      for (const Sizes &sizes : SizesOfParts) {
        uint64_t at = FirstOffset;
        std::vector<abi::Command> commands;
        for (std::pair<int, int> size : sizes)
          commands.push_back(commandFor(test, size, group.size(), at));
        std::vector<std::vector<std::byte>> expected;
        for (abi::Command &command : commands) {
          fillInput(command, group.size(), communicator.rank(), arena);
          communicator.run(group, command);
          expected.push_back(resultOf(command, group.size(), arena));
        }
        for (int round = 0; round < 2; ++round) { // twice in a row: the first round must not disturb the second
          for (const abi::Command &command : commands)
            fillInput(command, group.size(), communicator.rank(), arena);
          runParts(communicator, group, commands);
          for (size_t i = 0; i < commands.size(); ++i)
            if (resultOf(commands[i], group.size(), arena) != expected[i])
              throw std::runtime_error(std::string(test.name) + ": part " + std::to_string(i) + " of " +
                                       std::to_string(commands.size()) + " is another");
        }
      }
  });
  EXPECT_EQ(failures, std::vector<std::string>(static_cast<size_t>(ranks)));
}

INSTANTIATE_TEST_SUITE_P(All, Buckets,
                         testing::Combine(testing::Values(Bootstrap::Threads, Bootstrap::Processes, Bootstrap::Staged,
                                                          Bootstrap::Gpus, Bootstrap::Hosts, Bootstrap::TwoHosts),
                                          testing::Values(1, 3, 4)),
                         [](const auto &info) {
                           std::ostringstream name;
                           name << std::get<0>(info.param) << std::get<1>(info.param) << "Ranks";
                           return name.str();
                         });

class BucketBehaviour : public Behaviour {};

// A rank that has one part more would otherwise wait for ever.
TEST_P(BucketBehaviour, RanksAgreeOnTheirParts) {
  auto failures = runRanks(GetParam(), {2}, [&](Communicator &communicator, Arena &) {
    Group group = groupOf({0, 1}, communicator.rank());
    std::vector<abi::Command> commands = {allReduce(16, 4096), allReduce(16, 8192)};
    if (communicator.rank() == 1)
      commands.push_back(allReduce(16, 16384));
    runParts(communicator, group, commands);
  });
  for (const std::string &failure : failures)
    EXPECT_THAT(failure, AnyOf(HasSubstr("disagree about the collective of gradients"), HasSubstr("was lost")));
}

TEST_P(BucketBehaviour, MorePartsThanThereMayBeAreRefused) {
  auto failures = runRanks(GetParam(), {2}, [&](Communicator &communicator, Arena &) {
    std::vector<abi::Command> commands(abi::MaximumParts + 1, allReduce(1));
    runParts(communicator, groupOf({0, 1}, communicator.rank()), commands);
  });
  for (const std::string &failure : failures)
    EXPECT_THAT(failure, AnyOf(HasSubstr("the collective of gradients has 65 parts, and one may have 64"),
                               HasSubstr("was lost"), HasSubstr("ended")));
}

INSTANTIATE_TEST_SUITE_P(All, BucketBehaviour, testing::Values(Bootstrap::Threads, Bootstrap::Hosts),
                         [](const auto &info) {
                           std::ostringstream name;
                           name << info.param;
                           return name.str();
                         });

} // namespace
} // namespace dtc::test
