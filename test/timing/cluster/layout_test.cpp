#include "test/refusal.h"
#include "test/timing/cluster/mesh.h"
#include "test/timing/cluster/text.h"
#include "timing/cluster/cluster.h"

#include <gmock/gmock.h>

#include <numeric>

namespace dtc::timing {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Layout layout(const std::string &text, const std::vector<std::pair<std::string, int64_t>> &axes) {
  return {parseCluster(text, "c.textproto"), meshOf(axes)};
}

std::vector<int64_t> positions(const Layout &layout) {
  std::vector<int64_t> found;
  for (int64_t rank = 0; rank < layout.ranks(); ++rank)
    found.push_back(layout.positionOf(rank));
  return found;
}

Span span(const Layout &layout, const std::vector<int64_t> &members) { return layout.spanOf(members); }

std::string messageOf(const std::string &text, const std::vector<std::pair<std::string, int64_t>> &axes) {
  return test::refusalOf([&] { layout(text, axes); });
}

TEST(ClusterLayout, AxesNamedFirstLieInnermostAndOthersOutsideInTheMeshsOrder) {
  std::string text = replaced(Gpus, "axis_order: \"tp\"", "");
  EXPECT_THAT(positions(layout(text, {{"dp", 2}, {"tp", 4}})), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  // tp comes first in the mesh, and is strided over ranks.
  EXPECT_THAT(positions(layout(Gpus, {{"tp", 2}, {"dp", 4}})), ElementsAre(0, 2, 4, 6, 1, 3, 5, 7));
  std::string both = replaced(Gpus, "axis_order: \"tp\"", "axis_order: [\"a\", \"absent\", \"c\"]");
  // a innermost, then c, then b.
  EXPECT_THAT(positions(layout(both, {{"a", 2}, {"b", 2}, {"c", 2}})), ElementsAre(0, 2, 4, 6, 1, 3, 5, 7));
}

TEST(ClusterLayout, SaysOfEachLevelHowManyUnitsAGroupSpreadsOver) {
  Layout all = layout(Gpus, {{"dp", 2}, {"tp", 4}});
  EXPECT_EQ(span(all, {0, 1, 2, 3}), (Span{{4, 1}, 4})); // tp: within a node
  EXPECT_EQ(span(all, {0, 4}), (Span{{1, 2}, 2}));       // dp: one in each
  EXPECT_EQ(span(all, {0, 1, 4}), (Span{{2, 2}, 3})) << "as many as in the widest place";
  EXPECT_EQ(span(all, {5}), (Span{{1, 1}, 1}));
  EXPECT_EQ(span(all, {0, 1, 2, 3}).outermost(), 0);
  EXPECT_EQ(span(all, {0, 4}).outermost(), 1);
  EXPECT_EQ(span(all, {5}).outermost(), -1);
  EXPECT_EQ(all.levelBetween(0, 3), 0);
  EXPECT_EQ(all.levelBetween(3, 4), 1);
  EXPECT_EQ(all.nodeOf(3), 0);
  EXPECT_EQ(all.nodeOf(4), 1);
  EXPECT_EQ(all.ranksOnNodeOf(4), 4);
  EXPECT_EQ(all.coresOfNodeOf(4), 0);
  EXPECT_EQ(all.deviceOf(7).name(), "G1");
}

TEST(ClusterLayout, OfFewerRanksFillsTheFirstNodes) {
  Layout some = layout(Gpus, {{"dp", 6}});
  EXPECT_EQ(some.ranksOnNodeOf(0), 4);
  EXPECT_EQ(some.ranksOnNodeOf(5), 2);
}

TEST(ClusterLayout, LevelsMayDivideANodeOrJoinSome) {
  std::string text = replaced(Gpus, "levels { name: \"NVLink\" units: 4",
                              "levels { name: \"pair\" units: 2 latency: 1e-6 bandwidth: 600e9 }\n"
                              "levels { name: \"NVLink\" units: 2");
  Layout pairs = layout(text, {{"dp", 8}});
  EXPECT_EQ(pairs.levelBetween(0, 1), 0);
  EXPECT_EQ(pairs.levelBetween(1, 2), 1);
  EXPECT_EQ(pairs.levelBetween(3, 4), 2);
  EXPECT_EQ(span(pairs, {0, 1, 2, 3, 4, 5, 6, 7}), (Span{{2, 2, 2}, 8}));
  // A domain of NVLink over both nodes.
  text = replaced(replaced(Gpus, "units: 4", "units: 8"),
                  "levels { name: \"InfiniBand\" units: 2 latency: 5e-6 bandwidth: 25e9 }", "");
  EXPECT_EQ(layout(text, {{"dp", 8}}).levelBetween(0, 7), 0);
}

TEST(ClusterLayout, NodesMayDiffer) {
  std::string text = replaced(replaced(Gpus, "nodes {", "nodes { count: 1 device: \"G1\" devices: 2 } nodes {"),
                              "units: 4", "units: 0");
  text = replaced(text, "units: 2 latency: 5e-6", "latency: 5e-6");
  Layout uneven = layout(text, {{"dp", 10}});
  EXPECT_EQ(uneven.nodeOf(1), 0);
  EXPECT_EQ(uneven.nodeOf(2), 1);
  EXPECT_EQ(uneven.nodeOf(6), 2);
  EXPECT_EQ(uneven.ranksOnNodeOf(0), 2);
  EXPECT_EQ(uneven.levelBetween(1, 2), 1);
  EXPECT_THAT(messageOf(replaced(text, "units: 0", "units: 4"), {{"dp", 10}}), HasSubstr("not all nodes have"));
}

TEST(ClusterLayout, OfMoreRanksThanDevicesSaysWhatWouldFit) {
  std::string message = messageOf(Gpus, {{"dp", 4}, {"tp", 4}});
  EXPECT_THAT(message, HasSubstr("the mesh dp=4,tp=4 has 16 ranks, and the cluster 'small' has 8 devices"));
  EXPECT_THAT(message, HasSubstr("(dp=2 fits)"));
  EXPECT_THAT(message, HasSubstr("nodes[0].count: 4"));
  EXPECT_EQ(messageOf(Gpus, {{"dp", 2}, {"tp", 4}}), "no error");
  EXPECT_THAT(messageOf(Gpus, {{"dp", 0}}), HasSubstr("size of 'dp' must be at least 1"));
  EXPECT_THAT(messageOf(Gpus, {{"dp", 1 << 30}, {"tp", 1 << 30}}), HasSubstr("at most"));
}

TEST(ClusterLayout, RanksShareTheCoresOfAProcessor) {
  auto threads = [](int64_t ranks, int64_t of) { return layout(Processors, {{"dp", ranks}}).deviceOf(of).threads(); };
  EXPECT_EQ(threads(1, 0), 8u);
  EXPECT_EQ(threads(2, 1), 8u); // one on each node
  EXPECT_EQ(threads(8, 0), 2u); // four on each
  EXPECT_EQ(threads(4, 0), 2u) << "two on each get four, of which there is no kind: the largest below";
  EXPECT_EQ(threads(32, 0), 1u); // more than cores
  EXPECT_EQ(threads(3, 0), 2u);
  EXPECT_EQ(threads(3, 2), 8u) << "has the second node for itself";
  Layout five = layout(Processors, {{"dp", 5}});
  EXPECT_EQ(five.nodeOf(2), 0);
  EXPECT_EQ(five.nodeOf(3), 1);
  EXPECT_EQ(five.ranksOnNodeOf(0), 3);
  EXPECT_EQ(five.ranksOnNodeOf(4), 2);
  EXPECT_EQ(five.coresOfNodeOf(4), 8);
  EXPECT_EQ(five.levelBetween(0, 2), 0);
  EXPECT_EQ(five.levelBetween(2, 3), 1);
  EXPECT_THAT(messageOf(replaced(Processors, "threads: 1 ", "threads: 4 "), {{"dp", 32}}),
              HasSubstr("no 'P1' with 1 threads or fewer"));
}

TEST(ClusterLayout, ALinkIsSharedByNoMoreRanksThanThereAre) {
  EXPECT_EQ(layout(Processors, {{"dp", 2}}).cluster().levels(1).shared_by(), 1u);
  EXPECT_EQ(layout(Processors, {{"dp", 8}}).cluster().levels(1).shared_by(), 4u);
  std::string text = replaced(Gpus, "units: 2", "units: 2 shared_by: 2");
  EXPECT_EQ(layout(text, {{"dp", 8}}).cluster().levels(1).shared_by(), 2u);
}

TEST(ClusterLayout, Of4096RanksIsByTheBlock) {
  std::string text =
      replaced(replaced(replaced(Gpus, "count: 2", "count: 512"), "devices: 4", "devices: 8"), "units: 4", "units: 8");
  Layout large = layout(replaced(text, "units: 2", "units: 512"), {{"pp", 8}, {"dp", 64}, {"tp", 8}});
  EXPECT_EQ(large.ranks(), 4096);
  std::vector<int64_t> tp(8), dp(64), pp(8), all(4096);
  for (int64_t i = 0; i < 64; ++i)
    dp[i] = 5 + 8 * i;
  for (int64_t i = 0; i < 8; ++i) {
    tp[i] = 8 + i;
    pp[i] = 512 * i;
  }
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(span(large, tp), (Span{{8, 1}, 8}));
  EXPECT_EQ(span(large, dp), (Span{{1, 64}, 64}));
  EXPECT_EQ(span(large, pp), (Span{{1, 8}, 8}));
  EXPECT_EQ(span(large, all), (Span{{8, 512}, 4096}));
}

} // namespace
} // namespace dtc::timing
