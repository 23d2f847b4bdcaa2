#include "timing/plans/places.h"
#include "test/refusal.h"
#include "test/timing/plans/spaces.h"

#include <gmock/gmock.h>

namespace dtc::plans {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(PlanPlaces, KnowHowFarRanksOfAnAxisAreApart) {
  std::vector<MeshAxis> mesh = {{"pp", 2}, {"tp", 4}, {"dp", 3}};
  EXPECT_THAT(Places(gpus({8, 3}), 24).stridesOf(mesh), ElementsAre(12, 3, 1));
  // tp is innermost, then the last of the others.
  EXPECT_THAT(Places(gpus({8, 3}, "axis_order: \"tp\""), 24).stridesOf(mesh), ElementsAre(12, 1, 4));
}

TEST(PlanPlaces, TellSpreadsOverLevelsApart) {
  Places places(gpus({4, 2}), 8);
  // Two neighbours, and two with one between them: both within a node. Two that are four apart are on two nodes.
  EXPECT_EQ(places.spreadOf(1, 2), places.spreadOf(2, 2));
  EXPECT_NE(places.spreadOf(1, 2), places.spreadOf(4, 2));
  EXPECT_NE(places.spreadOf(1, 2), places.spreadOf(1, 4));
  // Four in one node; two on each of two nodes.
  EXPECT_NE(places.spreadOf(1, 4), places.spreadOf(2, 4));
}

TEST(PlanPlaces, LookAtAllGroups) {
  // Pairs on two nodes of six. Next to each other (0 and 1, 2 and 3, ...) all are within a node, and so are those that
  // are three apart (0 and 3, 1 and 4, 2 and 5). Of those that are two apart, 4 and 6 are on two nodes, as are 5 and 7.
  Places places(gpus({6, 2}), 12);
  EXPECT_EQ(places.spreadOf(1, 2), places.spreadOf(3, 2));
  EXPECT_NE(places.spreadOf(1, 2), places.spreadOf(2, 2));
}

TEST(PlanPlaces, TellKindsOfDevicesApartWhereLinksDoNot) {
  std::string text = "name: \"mixed\"\n" + gpuText("A") + gpuText("B") +
                     "nodes { count: 1 device: \"A\" devices: 2 }\nnodes { count: 1 device: \"B\" devices: 2 }\n";
  // One level joins both nodes.
  Places mixed(timing::parseCluster(text + levelText(4), "mixed.textproto"), 4);
  EXPECT_NE(mixed.spreadOf(1, 2), mixed.spreadOf(2, 2));
  text.replace(text.rfind("\"B\""), 3, "\"A\"");
  Places equal(timing::parseCluster(text + levelText(4), "equal.textproto"), 4);
  EXPECT_EQ(equal.spreadOf(1, 2), equal.spreadOf(2, 2));
}

TEST(PlanPlaces, TellNodesApartWhoseMemoryIsShared) {
  Places places(processors(2), 4);
  EXPECT_NE(places.spreadOf(1, 2), places.spreadOf(2, 2));
}

std::vector<int64_t> fillingsOf(const timing::Cluster &cluster, int64_t devices) {
  Places places(cluster, devices);
  return {places.fillings().begin(), places.fillings().end()};
}

TEST(PlanPlaces, KnowWhatNodesAndLevelsHold) {
  EXPECT_THAT(fillingsOf(gpus({8}), 8), IsEmpty()) << "all of them are no part";
  EXPECT_THAT(fillingsOf(gpus({4, 2, 2}), 16), ElementsAre(4, 8));
  EXPECT_THAT(fillingsOf(gpus({4, 2, 2}), 8), ElementsAre(4));
  EXPECT_THAT(fillingsOf(gpus({4, 2, 2}), 12), ElementsAre(4)) << "eight do not divide twelve";
  EXPECT_THAT(fillingsOf(processors(2), 6), ElementsAre(3));
  EXPECT_THAT(fillingsOf(processors(2), 5), IsEmpty());
}

TEST(PlanPlaces, OfAnotherProblemAreOthers) {
  auto fillings = [](const Problem &problem) {
    auto found = placesOf(problem).fillings();
    return std::vector<int64_t>(found.begin(), found.end());
  };
  EXPECT_THAT(fillings(problemOf(gpus({4, 2, 2}), 16)), ElementsAre(4, 8));
  EXPECT_THAT(fillings(problemOf(gpus({4, 2, 2}), 8)), ElementsAre(4));
  EXPECT_THAT(fillings(problemOf(gpus({2, 4}), 8)), ElementsAre(2));
}

TEST(PlanPlaces, RefuseMoreDevicesThanThereAre) {
  EXPECT_THAT(test::refusalOf([] { Places(gpus({4}), 8); }), HasSubstr("has 8 ranks, and the cluster 'gpus' has 4"));
}

} // namespace
} // namespace dtc::plans
