// What the tests of a communicator's behaviour share.
#pragma once

#include "test/conformance/ranks.h"

#include <algorithm>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtc::test {

using testing::AllOf;
using testing::AnyOf;
using testing::Each;
using testing::HasSubstr;

/// An in-place sum over f32.
inline abi::Command allReduce(int elements, uint64_t offset = 4096) {
  abi::Command command;
  abi::Collective &message = *command.mutable_start();
  message.set_kind(abi::Collective::ALL_REDUCE);
  message.set_input(offset);
  message.set_output(offset);
  message.set_outer(1);
  message.set_chunk(elements);
  message.set_value("gradients");
  return command;
}

/// The group of these ranks, as one of them sees it.
inline Group groupOf(std::vector<int> ranks, int rank, uint32_t channel = 0) {
  Group group;
  group.channel = channel;
  group.self = static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
  group.ranks = std::move(ranks);
  return group;
}

/// `body` on those of four ranks that are members of a group on this channel; none fails.
inline void onMembers(Bootstrap bootstrap, const std::vector<int> &members, uint32_t channel,
                      const std::function<void(Communicator &, Arena &, const Group &)> &body) {
  auto failures = runRanks(bootstrap, {4}, [&](Communicator &communicator, Arena &arena) {
    if (std::ranges::find(members, communicator.rank()) != members.end())
      body(communicator, arena, groupOf(members, communicator.rank(), channel));
  });
  EXPECT_EQ(failures, std::vector<std::string>(4));
}

class Behaviour : public testing::TestWithParam<Bootstrap> {
protected:
  /// No file of this test may be left in /dev/shm, whatever happened to the ranks.
  void TearDown() override {
    std::filesystem::path directory = std::filesystem::path(freshName()).parent_path();
    if (std::filesystem::exists(directory))
      EXPECT_TRUE(std::filesystem::is_empty(directory)) << directory;
    std::filesystem::remove_all(directory);
  }
};

} // namespace dtc::test
