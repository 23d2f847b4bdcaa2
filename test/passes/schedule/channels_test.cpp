// Channels of groups: a command that waits for another stage blocks nothing of its own stage.
#include "passes/schedule/emit/Channels.h"
#include "passes/schedule/emit/EmitCommands.h"

#include <gtest/gtest.h>

#include <set>

namespace dtc {
namespace {

constexpr Meeting Within = Meeting::WithinStage, Across = Meeting::AcrossStages, Moved = Meeting::Transfer;

TEST(Channels, KnowWhoMeets) {
  abi::Group ofStage, ofStages;
  ofStage.add_axes()->set_axis("tp");
  ofStages.add_axes()->set_axis("dp");
  ofStages.add_axes()->set_axis("pp");
  EXPECT_EQ(meetingOf(collectivePurpose, ofStage), Within);
  EXPECT_EQ(meetingOf(collectivePurpose, ofStages), Across);
  EXPECT_EQ(meetingOf(transferPurpose({.from = 1, .to = 2}, /*ranks=*/4), ofStages), Moved);
}

// What a rank sends to one neighbour never waits behind what it sends to, or receives from, another one.
TEST(Channels, OfNeighboursInARingDiffer) {
  for (int64_t ranks : {2, 3, 4, 5, 6, 7}) {
    std::vector<Route> routes;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      routes.push_back({rank, (rank + 1) % ranks});
      if (ranks > 2)
        routes.push_back({(rank + 1) % ranks, rank});
    }
    for (size_t i = 0; i < routes.size(); ++i)
      for (size_t j = 0; j < i; ++j) {
        bool meet = routes[i].from == routes[j].from || routes[i].from == routes[j].to ||
                    routes[i].to == routes[j].from || routes[i].to == routes[j].to;
        if (meet) {
          EXPECT_NE(transferPurpose(routes[i], ranks), transferPurpose(routes[j], ranks)) << ranks << " " << i << " " << j;
        }
      }
  }
  EXPECT_EQ(transferPurpose({0, 2}, 5), "0 to 2");
}

TEST(Channels, AreAllThereWithoutStages) {
  std::vector<Meeting> meetings(abi::MaximumChannels + 1, Within);
  EXPECT_EQ(channelsOf(meetings), (std::vector<uint32_t>{0, 1, 2, 3, 4, 5, 6, 7, 0}));
}

// dp=64,pp=8,tp=8 with megatron-sp and tied embeddings, in the order in which its commands name them.
TEST(Channels, OfNineGroupsOnlyThoseAcrossStagesShare) {
  std::vector<Meeting> meetings = {Within, Moved, Across, Moved, Within, Within, Across, Moved, Moved};
  EXPECT_EQ(channelsOf(meetings), (std::vector<uint32_t>{0, 7, 3, 6, 1, 2, 3, 5, 4}));
}

TEST(Channels, OfTransfersAreNeverThoseOfCollectives) {
  for (size_t within : {1, 3, 9})
    for (size_t transfers : {1, 4, 9}) {
      std::vector<Meeting> meetings(within, Within);
      meetings.push_back(Across);
      meetings.insert(meetings.end(), transfers, Moved);
      std::vector<uint32_t> channels = channelsOf(meetings);
      std::set<uint32_t> collective(channels.begin(), channels.begin() + static_cast<ptrdiff_t>(within) + 1);
      EXPECT_NE(channels[0], channels[within]);
      for (size_t i = within + 1; i < channels.size(); ++i) {
        EXPECT_LT(channels[i], abi::MaximumChannels);
        EXPECT_FALSE(collective.contains(channels[i])) << within << " and " << transfers;
      }
    }
}

} // namespace
} // namespace dtc
