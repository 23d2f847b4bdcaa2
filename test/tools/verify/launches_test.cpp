// Launches: buffers, grids, scalars and sites.
#include "test/tools/verify/command_lists.h"

#include "runtime/abi/random.h"

using testing::_;

namespace dtc::verify {
namespace {

TEST_F(CommandLists, ABufferOutsideTheArenaIsAFault) {
  twice(x, 28);
  EXPECT_THAT(run(), HasSubstr("bytes 28 to 36 lie outside an arena of 32"));
}

TEST_F(CommandLists, ScalarsMayBeTheRanksIndex) {
  // Rank r copies element r of x to y.
  addKernel("dtc_copy").set_library(true);
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
  *axis = tp();
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
