// Command lists written by hand: what they compute, and what the interpreter refuses.
#include "tools/verify/CommandInterpreter.h"

#include "dialect/IR/Ops.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "runtime/abi/groups.h"
#include "runtime/abi/random.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using mlir::dt::HostTensor;
using testing::_;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsNan;

namespace dtc::verify {
namespace {

// Two ranks; x [2] at 0, y [2] at 8, z [4] at 16.
constexpr int64_t x = 0, y = 8, z = 16;

class CommandLists : public testing::Test {
protected:
  CommandLists() {
    context.loadDialect<mlir::dt::DTDialect, mlir::func::FuncDialect>();
    abi::Axis *axis = manifest.mutable_mesh()->add_axes();
    axis->set_name("tp");
    axis->set_size(2);
    addRole();
    addTensor("x", x, 2);
    addTensor("y", y, 2);
    addTensor("z", z, 4);
    abi::Kernel *kernel = manifest.add_kernels();
    kernel->set_symbol("twice");
    kernel->set_reference(R"(dt.kernel @twice(%x: tensor<2xf32>) -> tensor<2xf32> {
        %y = dt.add %x, %x : tensor<2xf32>
        dt.yield %y : tensor<2xf32> })");
    kernel->set_inputs(1);
    kernel->set_outputs(1);
    manifest.add_locations("h.0.mlp");
  }

  void addRole() {
    abi::Role *role = manifest.add_roles();
    role->set_name("role " + std::to_string(manifest.roles_size()));
    role->set_arena_bytes(32);
    role->add_lists()->set_name("micro");
  }

  void addTensor(const char *name, uint64_t offset, int64_t size) {
    abi::Tensor *tensor = manifest.add_tensors();
    tensor->set_name(name);
    tensor->set_offset(offset);
    tensor->add_local_shape(size);
  }

  abi::CommandList &list(int role = 0) { return *manifest.mutable_roles(role)->mutable_lists(0); }

  void twice(uint64_t from, uint64_t to, int role = 0) {
    abi::Launch *launch = list(role).add_commands()->mutable_launch();
    for (uint64_t buffer : {from, to}) {
      launch->add_buffers(buffer);
      launch->add_buffer_bytes(8);
      launch->add_buffer_types(abi::F32);
    }
    launch->set_grid(2);
    launch->set_grain(1);
    launch->add_scalars()->set_value(2);
  }

  static abi::AxisRef tp() {
    abi::AxisRef axis;
    axis.set_axis("tp");
    axis.set_pre(1);
    axis.set_size(2);
    return axis;
  }

  abi::Launch &launchOf(int command) { return *list().mutable_commands(command)->mutable_launch(); }

  /// A kernel in text with one output, launched from x to `to`; its output has `size` elements.
  abi::Launch &launchKernel(const char *text, uint64_t to, int64_t size, int64_t grid,
                            const std::vector<int64_t> &scalars) {
    abi::Kernel *kernel = manifest.add_kernels();
    kernel->set_symbol("k");
    kernel->set_reference(text);
    kernel->set_inputs(1);
    kernel->set_outputs(1);
    abi::Launch *launch = list().add_commands()->mutable_launch();
    launch->set_kernel(manifest.kernels_size() - 1);
    launch->add_buffers(x);
    launch->add_buffers(to);
    launch->add_buffer_bytes(8);
    launch->add_buffer_bytes(abi::bytesOf(abi::F32, size));
    launch->add_buffer_types(abi::F32);
    launch->add_buffer_types(abi::F32);
    launch->set_grid(grid);
    launch->set_grain(1);
    for (int64_t scalar : scalars)
      launch->add_scalars()->set_value(scalar);
    return *launch;
  }

  abi::Collective &start(abi::Collective::Kind kind, uint64_t from, uint64_t to, uint32_t token, int role = 0) {
    abi::Collective *start = list(role).add_commands()->mutable_start();
    start->set_kind(kind);
    abi::AxisRefs axes;
    *axes.Add() = tp();
    start->set_group(abi::findOrAddGroup(manifest, axes));
    start->set_input(from);
    start->set_output(to);
    start->set_outer(1);
    start->set_chunk(2);
    start->set_token(token);
    start->set_value("v" + std::to_string(token));
    return *start;
  }

  void wait(uint32_t token, int role = 0) { list(role).add_commands()->mutable_wait()->set_token(token); }

  /// Runs the list; rank r's x is [1 + 10 r, 2 + 10 r]. Returns the fault's message, empty if all went well.
  std::string run(std::vector<int> roles = {}) {
    interpreter.emplace(manifest, context, roles);
    for (int64_t rank = 0; rank < 2; ++rank) {
      HostTensor piece({2});
      piece[0] = 1 + 10 * double(rank);
      piece[1] = 2 + 10 * double(rank);
      interpreter->write(rank, manifest.tensors(0), piece);
    }
    try {
      interpreter->run("micro");
      interpreter->requireAllWaited();
    } catch (const ProgramFault &fault) {
      return fault.what();
    }
    return "";
  }

  std::vector<double> read(int64_t rank, int tensor) {
    return *interpreter->read(rank, manifest.tensors(tensor)).elements;
  }

  mlir::MLIRContext context;
  abi::Manifest manifest;
  std::optional<CommandInterpreter> interpreter;
};

TEST_F(CommandLists, KernelsAndCollectivesComputeWhatTheySay) {
  twice(x, y);
  start(abi::Collective::ALL_REDUCE, y, y, 1);
  wait(1);
  start(abi::Collective::ALL_GATHER, x, z, 2);
  wait(2);
  ASSERT_EQ(run(), "");
  for (int64_t rank = 0; rank < 2; ++rank) {
    EXPECT_THAT(read(rank, 1), ElementsAre(24, 28));
    EXPECT_THAT(read(rank, 2), ElementsAre(1, 2, 11, 12));
  }
}

TEST_F(CommandLists, ReduceScatterAndAllToAllFollowTheManifestsLayout) {
  start(abi::Collective::ALL_GATHER, x, z, 1);
  wait(1);
  start(abi::Collective::REDUCE_SCATTER, z, y, 2);
  wait(2);
  ASSERT_EQ(run(), "");
  EXPECT_THAT(read(0, 1), ElementsAre(2, 4));
  EXPECT_THAT(read(1, 1), ElementsAre(22, 24));

  list().clear_commands();
  abi::Collective &exchange = start(abi::Collective::ALL_TO_ALL, x, y, 3);
  exchange.set_chunk(1);
  exchange.set_middle(1);
  wait(3);
  ASSERT_EQ(run(), "");
  EXPECT_THAT(read(0, 1), ElementsAre(1, 11));
  EXPECT_THAT(read(1, 1), ElementsAre(2, 12));
}

TEST_F(CommandLists, MemoryThatNothingWroteIsNaN) {
  twice(y, z);
  ASSERT_EQ(run(), "");
  EXPECT_TRUE(std::isnan(read(0, 2)[0]));
}

TEST_F(CommandLists, AResultReadBeforeItsWaitIsNaN) {
  start(abi::Collective::ALL_GATHER, x, z, 1);
  twice(z, y);
  wait(1);
  ASSERT_EQ(run(), "");
  EXPECT_TRUE(std::isnan(read(0, 1)[0]));
  EXPECT_THAT(read(0, 2), ElementsAre(1, 2, 11, 12));
}

TEST_F(CommandLists, WritingTheSourceOfACollectiveUnderWayIsAFault) {
  start(abi::Collective::ALL_GATHER, x, z, 1);
  twice(x, x);
  wait(1);
  EXPECT_THAT(run(), AllOf(HasSubstr("list 'micro', command 2 (h.0.mlp)"),
                           HasSubstr("source of the all-gather of v1 over tp changed while it was under way")));
}

TEST_F(CommandLists, WritingTheDestinationOfACollectiveUnderWayIsAFault) {
  start(abi::Collective::ALL_GATHER, x, z, 1);
  twice(x, z);
  wait(1);
  EXPECT_THAT(run(), HasSubstr("destination of the all-gather of v1 over tp was written"));
}

TEST_F(CommandLists, AStartWithoutAWaitIsAFault) {
  start(abi::Collective::ALL_GATHER, x, z, 1);
  EXPECT_THAT(run(), HasSubstr("rank 0 never waits for the all-gather of v1"));
}

TEST_F(CommandLists, AWaitWithoutAStartIsAFault) {
  wait(7);
  EXPECT_THAT(run(), HasSubstr("waits for token 7, which nothing under way has"));
}

TEST_F(CommandLists, AMissingPeerIsADeadlock) {
  addRole();
  start(abi::Collective::ALL_GATHER, x, z, 1);
  wait(1);
  EXPECT_THAT(run({0, 1}), AllOf(HasSubstr("deadlock"), HasSubstr("rank 0, list 'micro', command 1"),
                                 HasSubstr("waits for the all-gather of v1 over tp, which rank 1 does not start")));
}

TEST_F(CommandLists, CollectivesThatDoNotFitAreAFaultThatNamesBothRanks) {
  addRole();
  start(abi::Collective::ALL_REDUCE, x, y, 1);
  wait(1);
  start(abi::Collective::ALL_REDUCE, x, y, 1, 1).set_chunk(1);
  wait(1, 1);
  EXPECT_THAT(run({0, 1}), AllOf(HasSubstr("rank 1, list 'micro', command 0"), HasSubstr("of rank 0, list"),
                                 HasSubstr("chunk sizes 2 and 1")));
}

TEST_F(CommandLists, CollectivesInAnotherOrderAreAFault) {
  addRole();
  for (int role : {0, 1})
    for (uint32_t i : {0u, 1u}) {
      uint32_t token = role == 0 ? i : 1 - i;
      start(abi::Collective::ALL_REDUCE, token == 0 ? x : y, token == 0 ? y : z, token, role);
      wait(token, role);
    }
  EXPECT_THAT(run({0, 1}), HasSubstr("values v0 and v1"));
}

// Four ranks in a square, each with one neighbour over dp and one over tp. All start both and wait only then, so that
// messages could pass each other; but each collective is second for one of its members.
TEST_F(CommandLists, AnOrderInWhichTheRanksDifferIsADeadlock) {
  abi::Axis tpAxis = manifest.mesh().axes(0), dpAxis = tpAxis;
  dpAxis.set_name("dp");
  *manifest.mutable_mesh()->mutable_axes(0) = dpAxis;
  *manifest.mutable_mesh()->add_axes() = tpAxis;
  abi::AxisRef dp = tp();
  dp.set_axis("dp");
  *manifest.add_groups()->add_axes() = tp();
  *manifest.add_groups()->add_axes() = dp;
  manifest.mutable_groups(1)->set_channel(1);
  addRole();
  for (int role : {0, 1}) {
    uint32_t first = role; // tp before dp, or the reverse
    for (uint32_t group : {first, 1 - first}) {
      abi::Collective &call = start(abi::Collective::ALL_REDUCE, group == 0 ? x : z, group == 0 ? y : z, group, role);
      call.set_group(group);
      call.set_outer(group == 0 ? 1 : 0);
    }
    for (uint32_t token : {0u, 1u})
      wait(token, role);
  }
  EXPECT_EQ(run({0, 0, 0, 0}), "");
  EXPECT_EQ(run({1, 1, 1, 1}), "");
  EXPECT_THAT(run({0, 1, 1, 0}),
              AllOf(HasSubstr("deadlock"), HasSubstr("rank 0, list 'micro', command 2"),
                    HasSubstr("waits for the all-reduce of v0 over tp, which comes behind the all-reduce of v1 over dp "
                              "on rank 1: ranks start what they share in different orders")));
}

/// Rank 0 plays role 0, rank 1 role 1.
class Transfers : public CommandLists {
protected:
  Transfers() {
    addRole();
    for (uint32_t role : {0, 1})
      manifest.mutable_roles(int(role))->add_ranks(role);
    *manifest.add_groups()->add_axes() = tp();
  }

  abi::Transfer &move(int role, bool sends, uint64_t buffer, uint32_t token) {
    abi::Command &command = *list(role).add_commands();
    abi::Transfer &transfer = sends ? *command.mutable_send() : *command.mutable_recv();
    transfer.set_shift(1);
    transfer.set_buffer(buffer);
    transfer.set_elements(2);
    transfer.set_token(token);
    transfer.set_value("v");
    return transfer;
  }
};

// Rank 1 doubles what it gets and sends it back; a copy puts it elsewhere.
TEST_F(Transfers, MoveElementsBetweenRoles) {
  move(0, true, x, 1);
  wait(1, 0);
  move(0, false, y, 2);
  wait(2, 0);
  abi::Copy &copy = *list(0).add_commands()->mutable_copy();
  copy.set_input(y);
  copy.set_output(z + 4);
  copy.set_elements(2);
  move(1, false, y, 1);
  wait(1, 1);
  twice(y, z, 1);
  move(1, true, z, 1);
  wait(1, 1);
  ASSERT_EQ(run(), "");
  EXPECT_THAT(read(1, 1), ElementsAre(1, 2));
  EXPECT_THAT(read(0, 1), ElementsAre(2, 4));
  EXPECT_THAT(read(0, 2), ElementsAre(IsNan(), 2, 4, IsNan()));
}

TEST_F(Transfers, AreUnderWayUntilTheirWaits) {
  move(0, true, x, 1);
  twice(x, x);
  wait(1, 0);
  move(1, false, y, 1);
  wait(1, 1);
  EXPECT_THAT(run(), HasSubstr("source of the send of v by 1 over tp changed while it was under way"));
  list(0).mutable_commands()->SwapElements(1, 2);
  list(1).mutable_commands()->SwapElements(0, 1);
  EXPECT_THAT(run(), HasSubstr("waits for token 1, which nothing under way has"));
  list(1).mutable_commands()->SwapElements(0, 1);
  ASSERT_EQ(run(), "");
  *list(1).mutable_commands(1) = list(0).commands(2); // reads x, not y
  EXPECT_THAT(run(), HasSubstr("rank 1 never waits for the receive of v"));
}

TEST_F(Transfers, AMissingReceiveIsADeadlock) {
  move(0, true, x, 1);
  wait(1, 0);
  EXPECT_THAT(run(), AllOf(HasSubstr("deadlock"), HasSubstr("rank 0, list 'micro', command 1"),
                           HasSubstr("waits for the send of v by 1 over tp, which rank 1 does not start")));
}

TEST_F(Transfers, WhatDoesNotFitIsAFaultThatNamesBoth) {
  auto fault = [&](auto change) {
    list(0).clear_commands();
    list(1).clear_commands();
    move(0, true, x, 1);
    wait(1, 0);
    change(move(1, false, y, 1));
    wait(1, 1);
    return run();
  };
  EXPECT_EQ(fault([](abi::Transfer &) {}), "");
  EXPECT_THAT(fault([](abi::Transfer &t) { t.set_elements(1); }),
              AllOf(HasSubstr("the receive of v by 1 over tp meets the send of v by 1 over tp of rank 0, list"),
                    HasSubstr("numbers of elements 2 and 1")));
  EXPECT_THAT(fault([](abi::Transfer &t) { t.set_type(abi::I32); }), HasSubstr("element types differ"));
  EXPECT_THAT(fault([](abi::Transfer &t) { t.set_value("w"); }), HasSubstr("values v and w"));
  EXPECT_THAT(fault([](abi::Transfer &t) { t.set_shift(2); }), HasSubstr("leads to the rank itself"));
  EXPECT_THAT(fault([](abi::Transfer &t) { t.set_group(1); }), HasSubstr("group 1 of 1"));
  EXPECT_THAT(fault([&](abi::Transfer &t) {
                abi::Transfer same = t;
                *list(1).mutable_commands(0)->mutable_send() = same;
              }),
              HasSubstr("both send"));
  EXPECT_THAT(fault([&](abi::Transfer &) {
                list(1).clear_commands();
                start(abi::Collective::ALL_GATHER, x, z, 1, 1);
              }),
              HasSubstr("one is a collective, the other is none"));
}

// Both send before they receive: each waits for the other's second.
TEST_F(Transfers, SwappedOrdersAreAFault) {
  for (int role : {0, 1}) {
    move(role, true, x, 1);
    move(role, false, y, 2);
    wait(1, role);
    wait(2, role);
  }
  EXPECT_THAT(run(), HasSubstr("both send"));
  list(1).mutable_commands()->SwapElements(0, 1);
  ASSERT_EQ(run(), "");
  EXPECT_THAT(read(0, 1), ElementsAre(11, 12));
  EXPECT_THAT(read(1, 1), ElementsAre(1, 2));
}

// In a line of three the last waits for the first, which sends to the second.
TEST_F(Transfers, ASendToAnotherPeerIsADeadlock) {
  manifest.mutable_mesh()->mutable_axes(0)->set_size(3);
  manifest.mutable_groups(0)->mutable_axes(0)->set_size(3);
  addRole();
  manifest.mutable_roles(2)->add_ranks(2);
  move(0, true, x, 1);
  wait(1, 0);
  move(2, false, y, 1);
  wait(1, 2);
  EXPECT_THAT(run(), AllOf(HasSubstr("rank 0, list 'micro', command 1 (h.0.mlp) waits for the send"),
                           HasSubstr("which rank 1 does not start"), HasSubstr("which rank 0 does not start")));
  list(0).mutable_commands(0)->mutable_send()->set_shift(2);
  EXPECT_EQ(run(), "");
}

TEST_F(Transfers, ACopyOverItselfIsAFault) {
  abi::Copy &copy = *list(0).add_commands()->mutable_copy();
  copy.set_input(x);
  copy.set_output(x + 4);
  copy.set_elements(2);
  EXPECT_THAT(run(), HasSubstr("source and target of a copy overlap"));
}

// What is written in one slot is not there in another; the first place is z's first half.
TEST_F(CommandLists, ASlotHasItsOwnPlace) {
  abi::SlotClass *places = manifest.mutable_roles(0)->add_slot_classes();
  places->set_base(z);
  places->set_stride(8);
  places->set_slots(2);
  start(abi::Collective::ALL_REDUCE, x, z, 1);
  wait(1);
  ASSERT_EQ(run(), "");
  EXPECT_THAT(read(0, 2), ElementsAre(12, 14, IsNan(), IsNan()));
  interpreter->run("micro", 1);
  EXPECT_THAT(read(0, 2), ElementsAre(12, 14, 12, 14));
}

TEST_F(CommandLists, ALaterListMayWait) {
  start(abi::Collective::ALL_REDUCE, x, y, 1);
  manifest.mutable_roles(0)->add_lists()->set_name("later");
  manifest.mutable_roles(0)->mutable_lists(1)->add_commands()->mutable_wait()->set_token(1);
  EXPECT_THAT(run(), HasSubstr("rank 0 never waits for the all-reduce of v1"));
  EXPECT_TRUE(std::isnan(read(0, 1)[0])) << "it is under way";
  interpreter->run("later");
  interpreter->requireAllWaited();
  EXPECT_THAT(read(1, 1), ElementsAre(12, 14));
  EXPECT_THROW(interpreter->run("later"), ProgramFault);
}

TEST_F(CommandLists, ATokenIsInUseUntilAnyListHasWaited) {
  start(abi::Collective::ALL_REDUCE, x, y, 1);
  EXPECT_THAT(run(), HasSubstr("never waits"));
  try {
    interpreter->run("micro");
    ADD_FAILURE() << "started again";
  } catch (const ProgramFault &fault) {
    EXPECT_THAT(fault.what(), HasSubstr("with the token of the all-reduce of v1 over tp, which has not been waited"));
  }
}

TEST_F(CommandLists, ABufferOutsideTheArenaIsAFault) {
  twice(x, 28);
  EXPECT_THAT(run(), HasSubstr("bytes 28 to 36 lie outside an arena of 32"));
}

TEST_F(CommandLists, ScalarsMayBeTheRanksIndex) {
  // Rank r copies element r of x to y.
  abi::Kernel *kernel = manifest.add_kernels();
  kernel->set_symbol("dtc_copy");
  kernel->set_library(true);
  kernel->set_inputs(1);
  kernel->set_outputs(1);
  abi::Launch *launch = list().add_commands()->mutable_launch();
  launch->set_kernel(1);
  for (uint64_t buffer : {x, y}) {
    launch->add_buffers(buffer);
    launch->add_buffer_bytes(8);
    launch->add_buffer_types(abi::F32);
  }
  launch->set_grid(1);
  launch->set_grain(1);
  for (int i = 0; i < 24; ++i)
    launch->add_scalars()->set_value(i < 6 ? 1 : i == 20 ? INT64_MAX : i == 23 ? 4 : 0);
  abi::RankIndex *index = launch->mutable_scalars(18)->mutable_rank_index();
  index->set_scale(1);
  abi::AxisRef *axis = index->add_axes();
  axis->set_axis("tp");
  axis->set_pre(1);
  axis->set_size(2);
  ASSERT_EQ(run(), "");
  EXPECT_EQ(read(0, 1)[0], 1);
  EXPECT_EQ(read(1, 1)[0], 12);
}

TEST_F(CommandLists, AGridMustWriteEveryElementOnce) {
  twice(x, y);
  ASSERT_EQ(run(), "");
  for (int64_t grid : {-1, 0, 1, 3}) {
    launchOf(0).set_grid(grid);
    EXPECT_THAT(run(), HasSubstr("a grid of " + std::to_string(grid))) << grid;
  }
  launchOf(0).set_grid(2);
  launchOf(0).set_grain(0);
  EXPECT_THAT(run(), HasSubstr("grain of 0"));
}

TEST_F(CommandLists, AReductionThatStoresOneThingIsDoneOnce) {
  launchKernel(R"(dt.kernel @k(%x: tensor<2xf32>) -> tensor<f32> {
      %y = dt.reduce sum %x over [0] : tensor<2xf32> -> tensor<f32>
      dt.yield %y : tensor<f32> })",
               y, 1, 1, {2});
  ASSERT_EQ(run(), "");
  EXPECT_EQ(read(1, 1)[0], 23);
  for (int64_t grid : {0, 2}) {
    launchOf(0).set_grid(grid);
    EXPECT_THAT(run(), HasSubstr("a grid of " + std::to_string(grid))) << grid;
  }
}

TEST_F(CommandLists, AGridOfRowsAndOfColumnsCountsRowsAndBlocks) {
  // z [2, 2] = x along the second dimension; then the sums over its first.
  launchKernel(R"(dt.kernel @k(%x: tensor<2xf32>) -> tensor<2x2xf32> {
      %y = dt.broadcast %x dims [1] : tensor<2xf32> -> tensor<2x2xf32>
      dt.yield %y : tensor<2x2xf32> })",
               z, 4, 2, {});
  abi::Launch &sums = launchKernel(R"(dt.kernel @k(%z: tensor<2x2xf32>) -> tensor<2xf32> {
      %y = dt.reduce sum %z over [0] : tensor<2x2xf32> -> tensor<2xf32>
      dt.yield %y : tensor<2xf32> })",
                                   y, 2, 1, {});
  sums.set_buffers(0, z);
  sums.set_buffer_bytes(0, 16);
  ASSERT_EQ(run(), "");
  EXPECT_THAT(read(0, 2), ElementsAre(1, 2, 1, 2));
  EXPECT_THAT(read(0, 1), ElementsAre(2, 4));
  launchOf(0).set_grid(4);
  EXPECT_THAT(run(), HasSubstr("a grid of 4 writes 8 elements of output 0 of kernel 'k', which has 4"));
  launchOf(0).set_grid(2);
  launchOf(1).set_grid(2);
  EXPECT_THAT(run(), HasSubstr("a grid of 2 writes 4 elements"));
}

TEST_F(CommandLists, ALaunchSaysWhereItsKernelDraws) {
  // The key is x and y, [1, 2, 2, 4]: seed 1, step 2, and two samples of one element before these.
  twice(x, y);
  abi::Launch &launch = launchKernel(R"(dt.kernel @k(%key: tensor<4xi32>) -> tensor<2xf32> {
      %r = dt.random %key site 0 of [2] : tensor<4xi32> -> tensor<2xf32>
      dt.yield %r : tensor<2xf32> })",
                                     z, 2, 2, {2, 7});
  launch.set_buffer_bytes(0, 16);
  launch.set_buffer_types(0, abi::I32);
  for (int64_t site : {7, 8}) {
    launch.mutable_scalars(1)->set_value(site);
    ASSERT_EQ(run(), "");
    uint32_t stream = random::stream(1, 2, uint32_t(site));
    EXPECT_THAT(read(0, 2), ElementsAre(random::uniform(stream, 2), random::uniform(stream, 3), _, _));
  }
}

TEST_F(CommandLists, SitesAreNumberedFromZero) {
  abi::Launch &launch = launchKernel(R"(dt.kernel @k(%key: tensor<4xi32>) -> tensor<2xf32> {
      %r = dt.random %key site 1 of [2] : tensor<4xi32> -> tensor<2xf32>
      dt.yield %r : tensor<2xf32> })",
                                     y, 2, 2, {2, 7});
  launch.set_buffer_types(0, abi::I32);
  EXPECT_THAT(run(), HasSubstr("kernel 'k' draws at site number 1, the next is 0"));
}

TEST_F(CommandLists, ScalarsMustBeWhatTheKernelNeeds) {
  // y = x + the numbers of this rank's piece + a draw for each of them.
  abi::Launch &launch = launchKernel(R"(dt.kernel @k(%x: tensor<2xf32>, %key: tensor<4xi32>) -> tensor<2xf32> {
      %i = dt.iota 0 sharded <[{"tp"}]> : tensor<2xi32>
      %n = dt.convert %i : tensor<2xi32> -> tensor<2xf32>
      %r = dt.random %key site 0 of [4] sharded <[{"tp"}]> : tensor<4xi32> -> tensor<2xf32>
      %s = dt.random %key site 0 of [2] : tensor<4xi32> -> tensor<2xf32>
      %t = dt.mul %r, %s : tensor<2xf32>
      %z = dt.mul %t, %x : tensor<2xf32>
      %y = dt.add %n, %z : tensor<2xf32>
      dt.yield %y : tensor<2xf32> })",
                                     y, 2, 2, {2, 0, 7, 0, 7});
  manifest.mutable_kernels(1)->set_inputs(2);
  launch.set_buffers(1, z); // a key of unwritten memory: only scalars count here
  launch.set_buffer_bytes(1, 16);
  launch.set_buffer_types(1, abi::I32);
  launch.add_buffers(y);
  launch.add_buffer_bytes(8);
  launch.add_buffer_types(abi::F32);
  for (int index : {1, 3}) { // where the piece begins
    abi::RankIndex *begin = launch.mutable_scalars(index)->mutable_rank_index();
    begin->set_scale(2);
    begin->add_axes()->CopyFrom(tp());
  }
  ASSERT_EQ(run(), "");
  const char *needed[] = {"the number of elements is 2", "the first index of a dt.iota is 2",
                          "the site of a dt.random is 8", "the place of a dt.random along dimension 0 is 2",
                          "the site of a dt.random is 7"};
  for (int index = 0; index < 5; ++index) {
    abi::Scalar right = launch.scalars(index);
    if (right.has_value())
      launch.mutable_scalars(index)->set_value(right.value() + 1);
    else
      launch.mutable_scalars(index)->mutable_rank_index()->set_scale(1);
    EXPECT_THAT(run(), HasSubstr(needed[index]));
    *launch.mutable_scalars(index) = right;
  }
  for (int64_t site : {int64_t(-1), int64_t(1) << 32}) {
    launch.mutable_scalars(2)->set_value(site);
    EXPECT_THAT(run(), HasSubstr("has scalar 2 " + std::to_string(site) + ", which is no site"));
  }
  launch.mutable_scalars(2)->set_value(7);
  launch.mutable_scalars()->RemoveLast();
  EXPECT_THAT(run(), HasSubstr("reads 5 scalars, the launch has 4"));
}

TEST_F(CommandLists, AnOutputOverAnInputThatIsStillReadIsAFault) {
  twice(x, x); // each element is read for the last time when it is written
  ASSERT_EQ(run(), "");
  EXPECT_THAT(read(0, 0), ElementsAre(2, 4));
  launchOf(0).set_buffers(1, x + 4);
  EXPECT_THAT(run(), HasSubstr("output 0 of kernel 'twice' lies over input 0"));
}

} // namespace
} // namespace dtc::verify
