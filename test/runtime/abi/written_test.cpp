// Which memory commands read and write.
#include "runtime/abi/tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtc::abi {
namespace {

using testing::ElementsAre;
using testing::Pair;
using Ranges = std::vector<std::pair<uint64_t, uint64_t>>;

/// A group of three; ranges as their begins and bytes.
class WrittenTest : public testing::Test {
protected:
  WrittenTest() {
    Group &group = *manifest.add_groups();
    for (uint32_t member : {0, 2, 3})
      group.add_members(member);
    manifest.add_kernels()->set_inputs(1);
  }

  Ranges readBy() const {
    Ranges ranges;
    forEachRead(manifest, command, [&](uint64_t begin, uint64_t bytes) { ranges.emplace_back(begin, bytes); });
    return ranges;
  }
  Ranges writtenBy() const {
    Ranges ranges;
    forEachWritten(manifest, command, [&](uint64_t begin, uint64_t bytes) { ranges.emplace_back(begin, bytes); });
    return ranges;
  }

  Collective &collective(Collective::Kind kind) {
    Collective &call = *command.mutable_start();
    call.set_kind(kind);
    call.set_input(100);
    call.set_output(1000);
    call.set_outer(5);
    call.set_chunk(2);
    return call;
  }

  Manifest manifest;
  Command command;
};

TEST_F(WrittenTest, LogarithmsAreOneForEachRow) {
  Collective &call = collective(Collective::ALL_REDUCE);
  call.set_reduction(LOG_SUM_EXP);
  call.set_log_input(2000);
  call.set_log_output(3000);
  EXPECT_THAT(readBy(), ElementsAre(Pair(100, 40), Pair(2000, 20)));
  EXPECT_THAT(writtenBy(), ElementsAre(Pair(1000, 40), Pair(3000, 20)));
  call.set_kind(Collective::REDUCE_SCATTER);
  EXPECT_THAT(readBy(), ElementsAre(Pair(100, 120), Pair(2000, 60)));
  EXPECT_THAT(writtenBy(), ElementsAre(Pair(1000, 40), Pair(3000, 20)));
  call.set_reduction(SUM);
  EXPECT_THAT(readBy(), ElementsAre(Pair(100, 120)));
}

TEST_F(WrittenTest, CountsAreOneForEachMember) {
  Collective &call = collective(Collective::ALL_TO_ALL);
  call.set_outer(1);
  call.set_middle(4);
  EXPECT_THAT(readBy(), ElementsAre(Pair(100, 96)));
  call.set_counts(2000);
  call.set_received(3000);
  EXPECT_THAT(readBy(), ElementsAre(Pair(100, 96), Pair(2000, 12)));
  EXPECT_THAT(writtenBy(), ElementsAre(Pair(1000, 96), Pair(3000, 12)));
}

TEST_F(WrittenTest, AnInputThatOnlyCountsAGridIsReadByTheList) {
  Tensor rows;
  rows.set_kind(Tensor::INPUT);
  rows.set_type(I32);
  rows.add_local_shape(1);
  rows.set_address(64);
  TensorPlaces places;
  places.add(rows);
  places.sort();
  CommandList list;
  Launch &launch = *list.add_commands()->mutable_launch();
  launch.add_buffers(0);
  launch.add_buffer_bytes(16);
  int found = 0;
  auto count = [&](const Tensor &) { ++found; };
  places.forEachReadBy(list, manifest, count);
  EXPECT_EQ(found, 0);
  launch.set_grid_count(64);
  places.forEachReadBy(list, manifest, count);
  EXPECT_EQ(found, 1);
  places.forEachWrittenBy(list, manifest, count);
  EXPECT_EQ(found, 1);
}

} // namespace
} // namespace dtc::abi
