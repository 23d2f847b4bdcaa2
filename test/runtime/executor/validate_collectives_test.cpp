// The rules for collectives, broken one by one: groups, places, rows with weights, counts, several parts.
#include "test/runtime/executor/hostile.h"

#include <limits>

namespace dtc {
namespace {

using namespace test;
using testing::HasSubstr;

/// The toy's first collective as one of rows that have weights; the logarithms are at the end of the arena.
abi::Collective &weightedRows(Manifest &manifest) {
  abi::Collective &call = collective(manifest);
  call.set_reduction(abi::LOG_SUM_EXP);
  call.set_log_input(grow(manifest, 256));
  call.set_log_output(call.log_input() + 128);
  return call;
}

/// Likewise as one that sends as many rows of one element as counts say.
abi::Collective &uneven(Manifest &manifest) {
  abi::Collective &call = collective(manifest);
  call.set_kind(abi::Collective::ALL_TO_ALL);
  call.set_outer(1);
  call.set_middle(2);
  call.set_chunk(1);
  call.set_input(grow(manifest, 256));
  call.set_output(call.input() + 64);
  call.set_counts(call.input() + 128);
  call.set_received(call.input() + 192);
  return call;
}

const Hostile Collectives[] = {
    {"CollectiveType", [](Manifest &m) { collective(m).set_type(abi::DataType(-1)); }, "unknown type of elements"},
    {"ReductionOfI8", [](Manifest &m) { collective(m).set_type(abi::I8); }, "convert it to i32 before"},
    {"ReductionOfMasks", [](Manifest &m) { collective(m).set_type(abi::MASK); }, "a reduction of mask"},
    {"RootOfNoBroadcast", [](Manifest &m) { collective(m).set_root(1); },
     "its root is member 1, and only a broadcast has one"},
    {"RootBeyondTheGroup",
     [](Manifest &m) {
       collective(m).set_kind(abi::Collective::BROADCAST);
       collective(m).set_root(1000);
     },
     "its root is member 1000, and there are"},
    {"LogarithmsOfASum", [](Manifest &m) { collective(m).set_log_output(4); },
     "has logarithms of weights, and only log-sum-exp combines rows that have weights"},
    {"LogarithmsOfAGather", [](Manifest &m) { weightedRows(m).set_kind(abi::Collective::ALL_GATHER); },
     "is said to combine rows by log-sum-exp, and only an all-reduce or a reduce-scatter combines anything"},
    {"LogarithmsOfIntegers", [](Manifest &m) { weightedRows(m).set_type(abi::I32); },
     "combines rows of i32 by log-sum-exp, which takes f32"},
    {"LogarithmsOfRows", [](Manifest &m) { weightedRows(m).set_log_input(m.roles(0).arena_bytes() - 2); },
     "the logarithms of the input at byte"},
    {"LogarithmsOfResults", [](Manifest &m) { weightedRows(m).set_log_output(~uint64_t(3)); },
     "the logarithms of the output lies in space 65535 of 1"},
    {"LogarithmsOfTooManyRows",
     [](Manifest &m) {
       weightedRows(m).set_chunk(0);
       collective(m).set_outer(std::numeric_limits<int64_t>::max());
     },
     "an extent beyond all memory"},
    {"LogarithmsOfATensor",
     [](Manifest &m) {
       abi::Sharding &sharding = *tensor(m, "table").mutable_sharding();
       *sharding.add_partial() = sharding.dims(0).axes(0);
       sharding.clear_dims();
       sharding.add_reductions(abi::LOG_SUM_EXP);
     },
     "is combined by log-sum-exp, and has no logarithms of weights"},
    {"CountsOfAReduction", [](Manifest &m) { collective(m).set_counts(0); },
     "has counts, which are of an all-to-all of 1 outer row, and this is kind 0 of"},
    {"CountsOfSeveralRows", [](Manifest &m) { uneven(m).set_outer(2); },
     "has counts, which are of an all-to-all of 1 outer row, and this is kind 3 of 2"},
    {"CountsBeyondTheArena", [](Manifest &m) { uneven(m).set_counts(m.roles(0).arena_bytes() - 4); },
     "the counts of rows at byte"},
    {"CountsThatComeBeyondTheArena", [](Manifest &m) { uneven(m).set_received(m.roles(0).arena_bytes() - 4); },
     "the counts of rows that come at byte"},
    {"CountsThatComeAlone", [](Manifest &m) { uneven(m).clear_counts(); },
     "says how many rows come, but not how many are sent"},
    {"CollectiveInput", [](Manifest &m) { collective(m).set_input(m.roles(0).arena_bytes()); }, "the input at byte"},
    {"CollectiveOutput", [](Manifest &m) { collective(m).set_output(~uint64_t(3)); },
     "the output lies in space 65535 of 1"},
    {"CollectiveChunk", [](Manifest &m) { collective(m).set_chunk(std::numeric_limits<int64_t>::max()); },
     "beyond all memory"},
    {"CollectiveNegative", [](Manifest &m) { collective(m).set_outer(-1); }, "a negative extent"},
    {"GroupAxisTwice", [](Manifest &m) { *m.mutable_groups(0)->add_axes() = m.groups(0).axes(0); },
     "group 0: a list of mesh axes names a part of 'dp' twice"},
    {"GroupOfUnknownAxis", [](Manifest &m) { m.mutable_groups(1)->mutable_axes(0)->set_axis("pp"); }, "no axis 'pp'"},
    {"Channel", [](Manifest &m) { m.mutable_groups(1)->set_channel(8); }, "group 1 is on channel 8 of 8"},
    {"GroupMemberOfNobody", [](Manifest &m) { m.mutable_groups(0)->add_members(2); },
     "group 0 has member 2 of 2; members ascend"},
    {"GroupMembersTwice",
     [](Manifest &m) {
       for (uint32_t member : {1, 1})
         m.mutable_groups(0)->add_members(member);
     },
     "group 0 has member 1 of 2; members ascend"},
    {"CollectiveOfOthers", [](Manifest &m) { m.mutable_groups(0)->add_members(1); },
     "list 'join', command 0 (layer.table): the group leaves ranks out that play the role"},
    {"CollectiveOfSomeWhoPlayTheRole",
     [](Manifest &m) {
       addRanks(*m.mutable_roles(0), 0, 4);
       m.mutable_groups(0)->add_members(1);
     },
     "the group leaves ranks out that play the role"},
    {"CollectiveGroup", [](Manifest &m) { collective(m).set_group(2); }, "the group does not exist"},
    {"CollectivePrivate", [](Manifest &m) { m.mutable_roles(0)->set_shared_begin(m.roles(0).arena_bytes()); },
     "does not lie in the shared part"},
    {"CollectiveInAPrivateSpace",
     [](Manifest &m) {
       uint64_t end = m.roles(0).arena_bytes();
       m.mutable_roles(0)->set_shared_begin(end);
       m.mutable_roles(0)->mutable_spaces(0)->set_kind(abi::Space::PRIVATE);
     },
     "the input lies in space 'space 0', which peers do not see"},
};

INSTANTIATE_TEST_SUITE_P(Collectives, ValidateTest, testing::ValuesIn(Collectives),
                         [](const auto &info) { return info.param.name; });

/// The first start of "join", followed by another part.
static abi::Collective &startWithAPart(Manifest &manifest) {
  abi::CommandList &join = list(manifest, "join");
  *join.add_commands() = join.commands(0);
  for (int at = join.commands_size() - 1; at > 1; --at)
    join.mutable_commands()->SwapElements(at, at - 1);
  join.mutable_commands(0)->mutable_start()->set_more(true);
  return *join.mutable_commands(1)->mutable_start();
}

TEST(ValidateBucketTest, PartsAreOfOneGroupKindTypeAndToken) {
  Manifest fine = program();
  startWithAPart(fine);
  EXPECT_EQ(refusalOf(fine), "accepted");
  constexpr const char *Words = "is no part of the collective before";
  using Change = void (*)(abi::Collective &);
  for (Change change : std::initializer_list<Change>{[](abi::Collective &part) { part.set_token(part.token() + 1); },
                                                     [](abi::Collective &part) { part.set_group(part.group() + 1); },
                                                     [](abi::Collective &part) { part.set_type(abi::I32); },
                                                     [](abi::Collective &part) { part.set_reduction(abi::MAX); },
                                                     [](abi::Collective &part) {
                                                       part.set_kind(part.kind() == abi::Collective::ALL_GATHER
                                                                         ? abi::Collective::ALL_REDUCE
                                                                         : abi::Collective::ALL_GATHER);
                                                     }}) {
    Manifest manifest = program();
    change(startWithAPart(manifest));
    EXPECT_THAT(refusalOf(manifest), HasSubstr(Words));
  }
  Manifest open = program(), last = program();
  startWithAPart(open).set_more(true);
  EXPECT_THAT(refusalOf(open), HasSubstr(Words));
  startWithAPart(last).set_more(true);
  abi::CommandList &join = list(last, "join");
  join.mutable_commands()->DeleteSubrange(2, join.commands_size() - 2);
  EXPECT_THAT(refusalOf(last), HasSubstr("the list ends before the next part of it"));
}

TEST(ValidateBesideTest, LogarithmsAndCountsInOrderAreAccepted) {
  for (auto kind : {abi::Collective::ALL_REDUCE, abi::Collective::REDUCE_SCATTER}) {
    Manifest rows = program();
    abi::Collective &call = weightedRows(rows);
    call.set_kind(kind);
    call.set_outer(8);
    call.set_chunk(1);
    call.set_input(call.log_input() + 64);
    call.set_output(call.log_input() + 192);
    EXPECT_EQ(refusalOf(rows), "accepted");
    call.set_log_input(call.log_input() + 256 - 32); // room for 8 rows, of which a reduce-scatter has 8 for each member
    bool fits = kind == abi::Collective::ALL_REDUCE;
    EXPECT_THAT(refusalOf(rows), HasSubstr(fits ? "accepted" : "the logarithms of the input"));
  }
  Manifest counts = program();
  uneven(counts);
  launch(counts).set_grid_count(64);
  EXPECT_EQ(refusalOf(counts), "accepted");
}

/// What peers read of them, and what an all-reduce writes there.
TEST(ValidateBesideTest, WhatPeersTouchLiesWhereTheySeeIt) {
  auto isSeen = [](auto move) { // or in a private space before the other one
    Manifest manifest = program();
    abi::Role &role = *manifest.mutable_roles(0);
    role.set_arena_bytes(role.arena_bytes() + 256);
    role.set_shared_begin(256);
    role.mutable_spaces(0)->set_base(256);
    move(manifest, abi::addressOf(addSpace(role, abi::Space::PRIVATE, 0, 256), 0));
    std::string refusal = refusalOf(manifest);
    EXPECT_THAT(refusal, testing::AnyOf("accepted", HasSubstr("which peers do not see")));
    return refusal == "accepted";
  };
  auto rows = [](Manifest &m) -> abi::Collective & {
    abi::Collective &call = collective(m);
    call.set_reduction(abi::LOG_SUM_EXP);
    call.set_log_input(call.input());
    call.set_log_output(call.input());
    return call;
  };
  EXPECT_TRUE(isSeen([&](Manifest &m, uint64_t) { rows(m); }));
  EXPECT_FALSE(isSeen([&](Manifest &m, uint64_t hidden) { rows(m).set_log_input(hidden); }));
  EXPECT_FALSE(isSeen([&](Manifest &m, uint64_t hidden) { rows(m).set_log_output(hidden); }));
  EXPECT_TRUE(isSeen([&](Manifest &m, uint64_t hidden) {
    rows(m).set_kind(abi::Collective::REDUCE_SCATTER);
    collective(m).set_log_output(hidden);
  }));
  auto counted = [](Manifest &m) -> abi::Collective & {
    abi::Collective &call = collective(m);
    call.set_kind(abi::Collective::ALL_TO_ALL);
    call.set_outer(1);
    call.set_middle(0);
    call.set_counts(call.input());
    call.set_received(call.input());
    return call;
  };
  EXPECT_TRUE(isSeen([&](Manifest &m, uint64_t hidden) { counted(m).set_received(hidden); }));
  EXPECT_FALSE(isSeen([&](Manifest &m, uint64_t hidden) { counted(m).set_counts(hidden); }));
  EXPECT_TRUE(isSeen([](Manifest &m, uint64_t hidden) { launch(m).set_grid_count(hidden); }));
}

} // namespace
} // namespace dtc
