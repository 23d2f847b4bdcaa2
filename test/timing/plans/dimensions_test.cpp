#include "test/timing/plans/spaces.h"

#include "test/refusal.h"

#include <gmock/gmock.h>

#include <set>

namespace dtc::plans {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TEST(PlanDimensions, TensorRanksDivideDevicesAndHeads) {
  Problem problem = problemOf(gpus({12}), 12);
  problem.model.heads = problem.model.keyHeads = 6;
  problem.model.hidden = 48;
  EXPECT_THAT(valuesOf("tp", problem), ElementsAre("1", "2", "3", "6"));
  problem.model.hidden = 4;
  EXPECT_THAT(valuesOf("tp", problem), ElementsAre("1", "2", "3")) << "no more ranks than hidden units";
  problem.model.heads = problem.model.keyHeads = 0;
  EXPECT_THAT(valuesOf("tp", problem), ElementsAre("1"));
}

TEST(PlanDimensions, TensorRanksMayOutnumberKeyHeadsButLeaveNoneOut) {
  Problem problem = problemOf(gpus({12}), 12);
  problem.model.heads = 12;
  problem.model.keyHeads = 4;
  problem.model.hidden = 48;
  // Over three ranks, four key heads would be two, two and none.
  EXPECT_THAT(valuesOf("tp", problem), ElementsAre("1", "2", "4", "6", "12"));
}

TEST(PlanDimensions, ContextRanksDivideWhatIsLeftAndTheSequence) {
  Problem problem = problemOf(gpus({24}), 24);
  EXPECT_THAT(valuesOf("cp", problem), ElementsAre("1", "2", "4", "8")) << "of eight tokens";
  EXPECT_THAT(valuesOf("cp", problem, meshed({{"tp", 4}})), ElementsAre("1", "2"));
  problem.model.sequence = 7;
  EXPECT_THAT(valuesOf("cp", problem), ElementsAre("1"));
}

TEST(PlanDimensions, PipelinesHaveALayerForEachRankAndNoMoreStagesThanThereMayBe) {
  Problem problem = problemOf(gpus({12}), 12);
  EXPECT_THAT(valuesOf("pp", problem), ElementsAre("1", "2", "3", "4"));
  EXPECT_THAT(valuesOf("pp", problem, meshed({{"cp", 2}, {"tp", 2}})), ElementsAre("1", "3"));
  problem = problemOf(gpus({8, 32}), 256);
  problem.model.layers = 1000;
  EXPECT_THAT(valuesOf("pp", problem), ElementsAre("1", "2", "4", "8", "16", "32", "64", "128"));
}

TEST(PlanDimensions, DataRanksAreWhatIsLeftIfTheyDivideTheBatch) {
  Problem problem = problemOf(gpus({24}), 24);
  EXPECT_THAT(valuesOf("dp", problem, meshed({{"pp", 3}, {"tp", 2}})), ElementsAre("4"));
  EXPECT_THAT(valuesOf("dp", problem, meshed({{"tp", 2}})), IsEmpty()) << "twelve do not divide a batch of four";
  EXPECT_THAT(valuesOf("dp", problem, meshed({{"pp", 3}, {"cp", 2}, {"tp", 4}})), ElementsAre("1"));
}

const std::vector<MeshAxis> three = {{"pp", 2}, {"dp", 2}, {"tp", 2}};

TEST(PlanDimensions, OrdersThatAreSpreadAlikeAreOne) {
  Candidate two = meshed({{"pp", 2}, {"dp", 2}});
  EXPECT_THAT(valuesOf("order", problemOf(gpus({4}), 4), two), ElementsAre("pp>dp"));
  EXPECT_THAT(valuesOf("order", problemOf(gpus({2, 2}), 4), two), ElementsAre("pp>dp", "dp>pp"));
  // Two nodes of four: it matters which axis is outermost, between nodes.
  EXPECT_THAT(valuesOf("order", problemOf(gpus({4, 2}), 8), meshed(three)),
              ElementsAre("pp>dp>tp", "dp>pp>tp", "tp>pp>dp"));
  // Four nodes of two: which one is innermost.
  EXPECT_THAT(valuesOf("order", problemOf(gpus({2, 4}), 8), meshed(three)),
              ElementsAre("pp>dp>tp", "pp>tp>dp", "dp>tp>pp"));
  EXPECT_THAT(valuesOf("order", problemOf(gpus({2, 2, 2}), 8), meshed(three)),
              ElementsAre("pp>dp>tp", "pp>tp>dp", "dp>pp>tp", "dp>tp>pp", "tp>pp>dp", "tp>dp>pp"));
  EXPECT_THAT(valuesOf("order", problemOf(gpus({2, 2}), 4), meshed({{"cp", 4}})), ElementsAre("cp"));
  EXPECT_THAT(valuesOf("order", problemOf(gpus({2, 2}), 1)), ElementsAre("dp"));
}

TEST(PlanDimensions, OrdersFollowTheClusterFile) {
  // tp is innermost, whatever the mesh says.
  Problem problem = problemOf(gpus({2, 2, 2}, "axis_order: \"tp\""), 8);
  EXPECT_THAT(valuesOf("order", problem, meshed(three)), ElementsAre("pp>dp>tp", "dp>pp>tp"));
  problem = problemOf(gpus({2, 2, 2}, "axis_order: [\"tp\", \"dp\"]"), 8);
  EXPECT_THAT(valuesOf("order", problem, meshed(three)), ElementsAre("pp>dp>tp"));
}

TEST(PlanDimensions, OrdersNeedAsManyDevices) {
  Problem problem = problemOf(gpus({4}), 8);
  EXPECT_THAT(test::refusalOf([&] { candidatesOf(problem); }), HasSubstr("the cluster 'gpus' has 4 devices"));
}

TEST(PlanDimensions, AnOrderSortsTheAxes) {
  Candidate candidate = meshed(three);
  dimensionOf("order").set(candidate, "tp>pp>dp");
  EXPECT_EQ(candidate.meshText(), "tp=2,pp=2,dp=2");
}

TEST(PlanDimensions, TheSequenceIsSplitAlongTpWhereItDivides) {
  Problem problem = problemOf(gpus({8}), 8); // eight tokens
  EXPECT_THAT(valuesOf("sp", problem, meshed({{"dp", 4}, {"tp", 2}})), ElementsAre("off", "on"));
  EXPECT_THAT(valuesOf("sp", problem, meshed({{"cp", 4}, {"tp", 2}})), ElementsAre("off", "on"));
  EXPECT_THAT(valuesOf("sp", problem, meshed({{"dp", 8}})), ElementsAre("off"));
  problem.model.sequence = 12;
  EXPECT_THAT(valuesOf("sp", problem, meshed({{"cp", 2}, {"tp", 4}})), ElementsAre("off"));
}

TEST(PlanDimensions, StateIsSplitOverDpAndCp) {
  Problem problem = problemOf(gpus({8}), 8);
  EXPECT_THAT(valuesOf("state", problem, meshed({{"pp", 4}, {"tp", 2}})), ElementsAre("ddp"));
  EXPECT_THAT(valuesOf("state", problem, meshed({{"pp", 4}, {"cp", 2}})),
              ElementsAre("ddp", "zero1", "zero2", "zero3"));
  EXPECT_THAT(valuesOf("state", problem, meshed({{"dp", 8}})), ElementsAre("ddp", "zero1", "zero2", "zero3"))
      << "on a single node there is nothing for hsdp to fill";
}

/// The numbers of hsdp.
std::vector<std::string> shardsOf(const timing::Cluster &cluster, const std::vector<MeshAxis> &mesh) {
  Candidate candidate = meshed(mesh);
  std::vector<std::string> shards;
  for (const std::string &value : valuesOf("state", problemOf(cluster, candidate.devices()), candidate))
    if (value.starts_with("hsdp:"))
      shards.push_back(value.substr(5));
  return shards;
}

TEST(PlanDimensions, HybridShardsFillANodeOrALevel) {
  timing::Cluster cluster = gpus({4, 2, 2}); // nodes of 4, pairs of nodes, 16 in all
  EXPECT_THAT(shardsOf(cluster, {{"dp", 16}}), ElementsAre("4", "8"));
  EXPECT_THAT(shardsOf(cluster, {{"dp", 8}, {"tp", 2}}), ElementsAre("2", "4")) << "with tp they fill as many devices";
  EXPECT_THAT(shardsOf(cluster, {{"tp", 2}, {"dp", 8}}), ElementsAre("4")) << "eight are all of dp";
  EXPECT_THAT(shardsOf(cluster, {{"dp", 4}, {"tp", 4}}), ElementsAre("2")) << "tp alone fills a node";
  EXPECT_THAT(shardsOf(cluster, {{"pp", 4}, {"dp", 4}}), IsEmpty()) << "dp is within a node";
  EXPECT_THAT(shardsOf(cluster, {{"dp", 8}, {"cp", 2}}), ElementsAre("2", "4"));
  EXPECT_THAT(shardsOf(cluster, {{"cp", 2}, {"dp", 8}}), IsEmpty()) << "cp is between pairs of nodes";
  EXPECT_THAT(shardsOf(cluster, {{"dp", 12}}), ElementsAre("4"));
  EXPECT_THAT(shardsOf(gpus({6, 2}), {{"dp", 3}, {"tp", 4}}), IsEmpty()) << "six are no multiple of tp";
  EXPECT_THAT(shardsOf(gpus({4, 2, 2}, "axis_order: \"dp\""), {{"dp", 8}, {"tp", 2}}), ElementsAre("4"))
      << "the cluster file lays dp inside";
}

/// What a plan is before its micro-batches are decided.
Candidate withState(const std::vector<MeshAxis> &mesh, const std::string &state) {
  Candidate candidate = meshed(mesh);
  candidate.state = state;
  return candidate;
}

TEST(PlanDimensions, MicroBatchesDivideARanksBatchAndFillAPipeline) {
  Problem problem = problemOf(gpus({16}), 16);
  problem.model.batch = 24;
  EXPECT_THAT(valuesOf("micro-batches", problem, meshed({{"dp", 2}})), ElementsAre("1", "2", "3", "4", "6", "12"));
  EXPECT_THAT(valuesOf("micro-batches", problem, meshed({{"pp", 4}, {"dp", 2}})), ElementsAre("4", "6", "12"));
  EXPECT_THAT(valuesOf("micro-batches", problem, meshed({{"pp", 8}, {"dp", 4}})), ElementsAre("6"))
      << "as many as there can be, where there are fewer than ranks";
  problem.allowsAsynchronous = true;
  EXPECT_THAT(valuesOf("micro-batches", problem, meshed({{"pp", 4}, {"dp", 2}})), ElementsAre("4", "6", "12", "1"))
      << "one, for PipeDream";
  EXPECT_THAT(valuesOf("micro-batches", problem, withState({{"pp", 4}, {"dp", 2}}, "zero1")),
              ElementsAre("4", "6", "12"));
  EXPECT_THAT(valuesOf("micro-batches", problem, meshed({{"dp", 12}})), ElementsAre("1", "2"));
}

std::vector<std::string> timetablesFor(const Problem &problem, int64_t ranks, int64_t microBatches,
                                       const std::string &state = "ddp") {
  Candidate candidate = withState({{"pp", ranks}}, state);
  candidate.microBatches = microBatches;
  return valuesOf("timetable", problem, candidate);
}

TEST(PlanDimensions, TimetablesTakeTheShapeAndHaveALayerForEachStage) {
  Problem problem = problemOf(gpus({8}), 8);
  problem.model.batch = 24;
  problem.model.layers = 8;
  EXPECT_THAT(timetablesFor(problem, 4, 8), ElementsAre("1f1b", "naive", "gpipe", "interleaved", "zb-h1", "zb-h2",
                                                       "zbv", "v-half", "v-min", "dualpipev"));
  EXPECT_THAT(timetablesFor(problem, 4, 6), Not(Contains("dualpipev"))) << "which takes two micro-batches a rank";
  // Nine micro-batches on four ranks would be two rounds.
  problem.model.batch = 9;
  EXPECT_THAT(timetablesFor(problem, 4, 9), Not(Contains("interleaved")));
  problem.model.layers = 7; // too few for two stages on each of four ranks
  EXPECT_THAT(timetablesFor(problem, 4, 8), ElementsAre("1f1b", "naive", "gpipe", "zb-h1", "zb-h2"));
  problem.model.layers = 1000;
  EXPECT_THAT(timetablesFor(problem, 128, 256), ElementsAre("1f1b", "naive", "gpipe", "zb-h1", "zb-h2"))
      << "there may be 128 stages";
  EXPECT_THAT(valuesOf("timetable", problem, meshed({{"dp", 8}})), ElementsAre("1f1b")) << "there is no pipeline";
}

TEST(PlanDimensions, PipeDreamHasToBeAllowedAndTakesOneMicroBatchAndWholeState) {
  Problem problem = problemOf(gpus({4}), 4);
  problem.model.batch = 8;
  EXPECT_THAT(timetablesFor(problem, 4, 4), Not(Contains("pipedream")));
  EXPECT_THAT(timetablesFor(problem, 4, 1), IsEmpty());
  problem.allowsAsynchronous = true;
  EXPECT_THAT(timetablesFor(problem, 4, 1), ElementsAre("pipedream"));
  EXPECT_THAT(timetablesFor(problem, 4, 4), Not(Contains("pipedream")));
  EXPECT_THAT(timetablesFor(problem, 4, 1, "zero1"), IsEmpty());
  EXPECT_THAT(valuesOf("timetable", problem, meshed({{"dp", 4}})), ElementsAre("1f1b"));
  problem.model.batch = 1; // all other timetables have one micro-batch, too
  EXPECT_THAT(timetablesFor(problem, 4, 1), ElementsAre("1f1b", "naive", "gpipe", "zb-h1", "zb-h2", "pipedream"));
  problem.model.compute = abi::F16; // which takes a loss scale
  EXPECT_THAT(timetablesFor(problem, 4, 1), Not(Contains("pipedream")));
  problem.model.compute = abi::BF16;
  problem.model.gradients = abi::F16;
  EXPECT_THAT(timetablesFor(problem, 4, 1), Not(Contains("pipedream")));
}

TEST(PlanDimensions, ActivationsAreGatheredAgainOnlyWhereTheyAreGathered) {
  Problem problem = problemOf(gpus({4}), 4);
  Candidate candidate = meshed({{"dp", 2}, {"tp", 2}});
  EXPECT_THAT(valuesOf("recompute", problem, candidate), ElementsAre("cheap", "none", "selective", "full"));
  candidate.splitsSequence = true;
  EXPECT_THAT(valuesOf("recompute", problem, candidate), ElementsAre("cheap", "none", "regather", "selective", "full"));
  EXPECT_THAT(valuesOf("recompute", problem, meshed({{"dp", 2}, {"cp", 2}})), Contains("regather"));
}

TEST(PlanDimensions, HaveReadableNamesAndValues) {
  std::set<std::string_view> names;
  for (const Dimension &dimension : dimensions()) {
    EXPECT_TRUE(names.insert(dimension.name).second) << dimension.name;
    EXPECT_NE(dimension.meaning, "") << dimension.name;
    EXPECT_EQ(dimension.form.empty(), dimension.words != nullptr) << dimension.name;
    EXPECT_EQ(dimension.read("nonsense"), "") << dimension.name;
  }
  Problem problem = problemOf(gpus({4, 2, 2}), 16);
  problem.allowsAsynchronous = true;
  Candidate decided;
  for (const Dimension &dimension : dimensions()) {
    for (const std::string &value : dimension.values(problem, decided))
      EXPECT_EQ(dimension.read(value), value) << dimension.name;
    dimension.set(decided, dimension.values(problem, decided).back());
  }
}

// Counted by hand: four layers, four heads, eight tokens and four samples. 1, 2 or 4 micro-batches; cheap, none,
// selective or full.
TEST(PlanSpace, OfOneDevice) { EXPECT_EQ(candidatesOf(problemOf(gpus({2}), 1)).size(), 12U); }

// tp=2: 3 micro-batches, 4 ways to recompute, and 5 with sp.                                          3 (4 + 5) = 27
// cp=2: 4 ways to split state, 3 micro-batches, 5 ways to recompute.                                  4 · 3 · 5 = 60
// pp=2: 2 micro-batches with 9 timetables (dualpipev takes 4), 4 with 10; 4 ways to recompute.       (9 + 10) 4 = 76
// dp=2: 2 samples a rank are 1 or 2 micro-batches; 4 ways to split state, 4 to recompute.             2 · 4 · 4 = 32
TEST(PlanSpace, OfTwoDevices) {
  Problem problem = problemOf(gpus({2}), 2);
  EXPECT_EQ(candidatesOf(problem, {"tp=2"}).size(), 27U);
  EXPECT_EQ(candidatesOf(problem, {"cp=2"}).size(), 60U);
  EXPECT_EQ(candidatesOf(problem, {"pp=2"}).size(), 76U);
  EXPECT_EQ(candidatesOf(problem, {"dp=2"}).size(), 32U);
  EXPECT_EQ(candidatesOf(problem).size(), 195U);
}

// dp=4: a sample a rank is one micro-batch; 4 ways to split state, and hsdp:2; 4 ways to recompute.         5 · 4 = 20
// dp=2, tp=2: 2 orders; 2 samples a rank are 1 or 2 micro-batches; 4 ways to split state; 4 ways to recompute, and 5
// with sp.                                                                                  2 · 2 · 4 (4 + 5) = 144
// On a single node there is no hsdp, and one order.
TEST(PlanSpace, OfTwoNodesOfTwo) {
  Problem problem = problemOf(gpus({2, 2}), 4);
  EXPECT_EQ(candidatesOf(problem, {"dp=4"}).size(), 20U);
  EXPECT_EQ(candidatesOf(problem, {"dp=2", "tp=2"}).size(), 144U);
  problem.cluster = gpus({4});
  EXPECT_EQ(candidatesOf(problem, {"dp=4"}).size(), 16U);
  EXPECT_EQ(candidatesOf(problem, {"dp=2", "tp=2"}).size(), 72U);
}

TEST(PlanSpace, BeginsWithTheSimplestAndTellsAllApart) {
  Problem problem = problemOf(gpus({2, 2, 2}), 8);
  problem.allowsAsynchronous = true;
  std::vector<Candidate> candidates = candidatesOf(problem);
  std::set<std::string> texts;
  for (const Candidate &candidate : candidates) {
    EXPECT_EQ(candidate.devices(), 8) << candidate.text();
    texts.insert(candidate.text());
  }
  EXPECT_EQ(texts.size(), candidates.size());
  EXPECT_EQ(candidates, candidatesOf(problem)) << "always in the same order";
  EXPECT_EQ(candidatesOf(problemOf(gpus({2, 2}), 4)).front().text(), "dp=4, ddp");
}

TEST(PlanSpace, MayHaveOneCandidateOrNone) {
  // Heads, tokens and samples do not divide by three. A pipeline has 4 micro-batches, 5 timetables of one stage a rank,
  // and 4 ways to recompute.
  Problem problem = problemOf(gpus({3}), 3);
  EXPECT_EQ(candidatesOf(problem).size(), 20U);
  problem.model.layers = 2;
  EXPECT_THAT(candidatesOf(problem), IsEmpty());
  EXPECT_TRUE(isEmpty(problem, {}));
  problem.model.batch = 3; // dp=3 with a sample for each rank
  EXPECT_EQ(candidatesOf(problem, {"ddp", "cheap"}).size(), 1U);
}

} // namespace
} // namespace dtc::plans
