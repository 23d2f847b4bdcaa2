// What collectives and launches read besides their operands: logarithms of weights, counts of rows, counts of grids.
#include "test/tools/verify/command_lists.h"

#include <array>
#include <cmath>
#include <limits>

using testing::DoubleEq;

namespace dtc::verify {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr uint64_t before = 32, w = 40, after = 56;

/// After x, y and z: two numbers, four, and two.
class Beside : public CommandLists {
protected:
  Beside() {
    test::setArena(*manifest.mutable_roles(0), 64);
    addTensor("before", before, 2);
    addTensor("w", w, 4);
    addTensor("after", after, 2);
  }

  /// The tensor of this number on both ranks.
  void give(int tensor, std::vector<double> first, std::vector<double> second) {
    given.push_back({tensor, {std::move(first), std::move(second)}});
  }

  std::string run(std::vector<int> roles = {}) {
    interpreter.emplace(manifest, context, roles);
    for (const auto &[tensor, values] : given)
      for (int64_t rank = 0; rank < 2; ++rank) {
        mlir::dt::HostTensor piece({static_cast<int64_t>(values[rank].size())});
        *piece.elements = values[rank];
        interpreter->write(rank, manifest.roles(0).tensors(tensor), piece);
      }
    return runStep();
  }

  /// A launch between start and wait writes what is read beside the rows; then, from `other`, what is written there.
  void expectBesideIsKept(const std::string &collective, uint64_t other) {
    launchOf(1).set_buffers(1, before);
    EXPECT_THAT(run(), HasSubstr("source of the " + collective + " of v1 over tp changed"));
    launchOf(1).set_buffers(0, other);
    launchOf(1).set_buffers(1, after);
    EXPECT_THAT(run(), HasSubstr("destination of the " + collective + " of v1 over tp was written"));
  }

  /// Two rows of one element, or one of each member's in a reduce-scatter, with logarithms before and after.
  abi::Collective &merge(abi::Collective::Kind kind) {
    abi::Collective &call = start(kind, x, y, 1);
    call.set_reduction(abi::LOG_SUM_EXP);
    call.set_outer(kind == abi::Collective::ALL_REDUCE ? 2 : 1);
    call.set_chunk(1);
    call.set_log_input(before);
    call.set_log_output(after);
    return call;
  }
  void giveRows() {
    give(0, {1, 5}, {3, NAN});
    give(3, {0, -infinity}, {std::log(3), -infinity});
  }

  /// z goes to w, each two rows of one element from or for each member.
  abi::Collective &exchange(bool splitFirst) {
    abi::Collective &call = start(abi::Collective::ALL_TO_ALL, z, w, 1);
    call.set_middle(2);
    call.set_chunk(1);
    call.set_split_first(splitFirst);
    call.set_counts(before);
    call.set_received(after);
    return call;
  }
  void giveCounts() {
    give(2, {1, 2, 3, 4}, {11, 12, 13, 14});
    give(3, {1, 2}, {0, 1});
    give(4, {-1, -2, -3, -4}, {-5, -6, -7, -8});
  }

private:
  std::vector<std::pair<int, std::array<std::vector<double>, 2>>> given;
};

//===----------------------------------------------------------------------===//
// Rows that have weights
//===----------------------------------------------------------------------===//

TEST_F(Beside, RowsAreCombinedByTheirWeights) {
  giveRows();
  merge(abi::Collective::ALL_REDUCE);
  wait(1);
  ASSERT_EQ(run(), "");
  for (int64_t rank : {0, 1}) {
    EXPECT_THAT(read(rank, 1), ElementsAre(DoubleEq(2.5), 0));
    EXPECT_THAT(read(rank, 5), ElementsAre(DoubleEq(std::log(4)), -infinity));
  }
  abi::Collective &inPlace = *list().mutable_commands(0)->mutable_start();
  inPlace.set_output(x);
  inPlace.set_log_output(before);
  ASSERT_EQ(run(), "");
  EXPECT_THAT(read(1, 0), ElementsAre(DoubleEq(2.5), 0));
  EXPECT_THAT(read(1, 3), ElementsAre(DoubleEq(std::log(4)), -infinity));
}

TEST_F(Beside, AReduceScatterGivesEachMemberItsRow) {
  giveRows();
  merge(abi::Collective::REDUCE_SCATTER);
  wait(1);
  ASSERT_EQ(run(), "");
  EXPECT_THAT(read(0, 1), ElementsAre(DoubleEq(2.5), IsNan()));
  EXPECT_THAT(read(0, 5), ElementsAre(DoubleEq(std::log(4)), IsNan()));
  EXPECT_THAT(read(1, 1), ElementsAre(0, IsNan()));
  EXPECT_THAT(read(1, 5), ElementsAre(-infinity, IsNan()));
}

TEST_F(Beside, LogarithmsAreUnderWayAsRowsAre) {
  giveRows();
  merge(abi::Collective::ALL_REDUCE);
  twice(after, z);
  wait(1);
  ASSERT_EQ(run(), "");
  EXPECT_TRUE(std::isnan(read(0, 2)[1])) << "read before the wait";
  expectBesideIsKept("all-reduce (log_sum_exp)", x);
}

TEST_F(Beside, LogarithmsLieApart) {
  giveRows();
  abi::Collective &call = merge(abi::Collective::ALL_REDUCE);
  wait(1);
  for (uint64_t address : {uint64_t(x), before + 4}) { // on rows that are read, and on some of the logarithms
    call.set_log_output(address);
    EXPECT_THAT(run(), HasSubstr("source and destination of the all-reduce (log_sum_exp) of v1 over tp overlap"));
  }
  call.set_log_output(after);
  call.set_output(before);
  EXPECT_THAT(run(), HasSubstr("source and destination of"));
  call.set_output(after);
  EXPECT_THAT(run(), HasSubstr("the two destinations of the all-reduce (log_sum_exp) of v1 over tp overlap"));
}

TEST_F(Beside, ReductionsOfDifferentKindsAreAFault) {
  addRole();
  test::setArena(*manifest.mutable_roles(1), 64);
  for (auto kind : {abi::Collective::ALL_REDUCE, abi::Collective::REDUCE_SCATTER}) {
    for (int role : {0, 1}) {
      list(role).clear_commands();
      start(kind, kind == abi::Collective::ALL_REDUCE ? x : z, y, 1, role).set_reduction(role ? abi::MAX : abi::SUM);
      wait(1, role);
    }
    give(0, {1, 2}, {1, 2});
    give(2, {1, 2, 3, 4}, {1, 2, 3, 4});
    bool toAll = kind == abi::Collective::ALL_REDUCE;
    EXPECT_THAT(run({0, 1}), HasSubstr(toAll ? ": all-reduce and all-reduce (max)"
                                             : ": reduce-scatter and reduce-scatter (max)"));
  }
}

//===----------------------------------------------------------------------===//
// Counts of rows
//===----------------------------------------------------------------------===//

TEST_F(Beside, CountsSayWhichRowsComeAndTheOthersStay) {
  giveCounts();
  exchange(/*splitFirst=*/true);
  wait(1);
  ASSERT_EQ(run(), "");
  EXPECT_THAT(read(0, 4), ElementsAre(1, -2, -3, -4)); // by row, then member
  EXPECT_THAT(read(0, 5), ElementsAre(1, 0));
  EXPECT_THAT(read(1, 4), ElementsAre(3, 13, 4, -8));
  EXPECT_THAT(read(1, 5), ElementsAre(2, 1));
  list().mutable_commands(0)->mutable_start()->set_split_first(false);
  list().mutable_commands(0)->mutable_start()->clear_received();
  ASSERT_EQ(run(), "");
  EXPECT_THAT(read(0, 4), ElementsAre(1, -2, -3, -4)); // by member, then row; z likewise by row, then member
  EXPECT_THAT(read(1, 4), ElementsAre(2, 4, 12, -8));
  EXPECT_THAT(read(1, 5), ElementsAre(IsNan(), IsNan()));
}

TEST_F(Beside, RowsThatDoNotComeAreAsUnwrittenAsTheyWere) {
  give(2, {1, 2, 3, 4}, {11, 12, 13, 14});
  give(3, {1, 2}, {0, 1});
  exchange(/*splitFirst=*/true);
  wait(1);
  ASSERT_EQ(run(), "");
  EXPECT_THAT(read(0, 4), ElementsAre(1, IsNan(), IsNan(), IsNan()));
}

TEST_F(Beside, CountsBeyondTheirBoundsAreAFault) {
  giveCounts();
  exchange(/*splitFirst=*/true);
  wait(1);
  for (auto [count, text] : {std::pair(3.0, "3"), std::pair(-1.0, "-1"), std::pair(0.5, "0.5"), std::pair(double(NAN), "nan")}) {
    give(3, {1, 2}, {count, 1});
    EXPECT_THAT(run(), HasSubstr("in the all-to-all (by counts) of v1 over tp rank 1 is to send rank 0 " +
                                 std::string(text)));
  }
}

TEST_F(Beside, CountsAreUnderWayAsRowsAre) {
  giveCounts();
  exchange(/*splitFirst=*/true);
  twice(w, y);
  wait(1);
  ASSERT_EQ(run(), "");
  EXPECT_THAT(read(0, 1), ElementsAre(IsNan(), IsNan())) << "read before the wait";
  expectBesideIsKept("all-to-all (by counts)", z);
}

//===----------------------------------------------------------------------===//
// Counts of grids
//===----------------------------------------------------------------------===//

TEST_F(Beside, AGridEndsWhereMemorySays) {
  give(0, {1, 2}, {1, 2});
  give(1, {-1, -2}, {-1, -2});
  give(3, {1, 0}, {2, 0});
  twice(x, y);
  launchOf(0).set_grid_count(before);
  ASSERT_EQ(run(), "");
  EXPECT_THAT(read(0, 1), ElementsAre(2, -2));
  EXPECT_THAT(read(1, 1), ElementsAre(2, 4));
  launchOf(0).set_grid_count(before + 4);
  ASSERT_EQ(run(), "");
  EXPECT_THAT(read(1, 1), ElementsAre(-1, -2));
  launchOf(0).set_grid(1);
  EXPECT_THAT(run(), HasSubstr("a grid of 1 writes 1 elements")) << "the whole grid is right, however much of it runs";
}

TEST_F(Beside, ACountBeyondItsGridIsAFault) {
  twice(x, y);
  launchOf(0).set_grid_count(before);
  for (auto [count, text] : {std::pair(3.0, "3"), std::pair(-1.0, "-1"), std::pair(1.5, "1.5"), std::pair(double(NAN), "nan")}) {
    give(0, {1, 2}, {1, 2});
    give(3, {count, 0}, {0, 0});
    EXPECT_THAT(run(), HasSubstr("rank 0, list 'micro', command 0 (h.0.mlp): the count of the grid of kernel 'twice' "
                                 "says " +
                                 std::string(text)));
  }
}

/// Of the library some references know what a part of a grid writes, and others refuse.
TEST_F(Beside, KernelsOfTheLibraryRunInPartOrAreRefused) {
  give(0, {7, 8}, {7, 8});
  give(1, {-1, -2}, {-1, -2});
  give(3, {1, 0}, {1, 0}); // indices, of which the first is the count, too
  abi::Launch &launch = launchKernel("", y, 2, 2, {2, 1, 0, 4});
  abi::Kernel &gather = *manifest.mutable_kernels(1);
  gather.set_symbol("dtc_gather");
  gather.set_library(true);
  gather.set_inputs(2);
  launch.clear_buffers();
  for (uint64_t buffer : {uint64_t(x), before, uint64_t(y)})
    launch.add_buffers(buffer);
  launch.add_buffer_bytes(8);
  launch.clear_buffer_types();
  for (abi::DataType type : {abi::F32, abi::I32, abi::F32})
    launch.add_buffer_types(type);
  launch.set_grid_count(before);
  ASSERT_EQ(run(), "");
  EXPECT_THAT(read(0, 1), ElementsAre(8, -2));
  gather.set_symbol("dtc_scatter_add");
  EXPECT_THAT(run(), HasSubstr("dtc_scatter_add: a part of its grid is run"));
}

} // namespace
} // namespace dtc::verify
