// Why other plans lose, and how they are counted.
#include "test/tools/dtc/plan/problems.h"
#include "tools/dtc/plan/PlanText.h"
#include "tools/dtc/plan/WhyNot.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace dtc {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr int64_t Much = 1'000'000'000;

plans::Evaluated step(double compute, double exposed, double bubble) {
  plans::Evaluated its;
  its.compute = compute;
  its.exposed = exposed;
  its.bubble = bubble;
  its.seconds = compute + exposed + bubble;
  return its;
}

// Half a percent of a second is 5 ms: the bubble differs by less.
TEST(WhyNotTest, PartsThatDifferMostComeFirst) {
  EXPECT_EQ(differencesText(step(0.95, 0.310, 0.024), step(0.9, 0.08, 0.02)),
            "exposed communication 310 ms instead of 80 ms, compute 950 ms instead of 900 ms");
  EXPECT_EQ(differencesText(step(1, 0, 0), step(1, 0, 0)), "");
}

TEST(WhyNotTest, VerdictsHaveTheirFigures) {
  plans::Problem problem = problemOn(gpus(2, Much), 8);
  plans::Evaluated proposed = step(1, 0, 0), other = step(1, 0.25, 0);
  proposed.candidate.mesh = {{"dp", 8}};
  other.candidate.mesh = {{"tp", 8}};
  EXPECT_EQ(verdictOn(problem, other, proposed),
            "its step is 25.0% longer: exposed communication 250 ms instead of 0 us");
  other.bytes = 92e9;
  other.lack = 12e9;
  EXPECT_EQ(verdictOn(problem, other, proposed), "out of memory: a rank needs 92 GB, and 12 GB are lacking");
  other.problem = "the batch does not divide";
  EXPECT_EQ(verdictOn(problem, other, proposed), "not possible: the batch does not divide");
  EXPECT_EQ(verdictOn(problem, proposed, proposed), "it is the plan that is proposed");
  plans::Evaluated slow = step(1, 1.25, 0);
  slow.candidate.mesh = {{"tp", 8}};
  EXPECT_EQ(verdictOn(problem, slow, proposed),
            "its step is 2.25 times as long: exposed communication 1.25 s instead of 0 us");
}

/// The first of all.
plans::Candidate candidateOf(const plans::Problem &problem) { return allFigures(problem).front().candidate; }

/// The popular layouts on eight devices, two nodes of four.
std::map<std::string, Popular> popularOf(plans::Problem problem) {
  CountingEvaluator counting;
  PlanSearch search(problem, {}, counting.function(), {.rows = 10, .most = 0});
  PlannedNumber planned = search.plan(problem.devices);
  std::map<std::string, Popular> all;
  for (Popular &each : popularVerdicts(search, planned, evaluatePopular(search, planned)))
    all[std::string(each.name)] = each;
  return all;
}

TEST(WhyNotTest, PopularLayoutsAreFoundInTheSpace) {
  std::map<std::string, Popular> all = popularOf(problemOn(gpus(2, Much), 8));
  ASSERT_EQ(all.size(), 5U);
  EXPECT_THAT(all.at("plain data parallelism").text, StartsWith("dp=8"));
  EXPECT_THAT(all.at("ZeRO-3 (FSDP) over all").text, StartsWith("dp=8"));
  EXPECT_THAT(all.at("ZeRO-3 (FSDP) over all").text, HasSubstr("zero3"));
  EXPECT_THAT(all.at("tensor parallel in a node, data parallel outside").text, HasSubstr("tp=4"));
  EXPECT_THAT(all.at("Megatron-LM's tensor x pipeline x data").text, HasSubstr("pp=2"));
  // Four layers are not enough.
  EXPECT_EQ(all.at("a pipeline alone").verdict, "not possible: 4 layers are not enough for 8 stages");
  for (const auto &[name, popular] : all) {
    EXPECT_FALSE(popular.verdict.empty()) << name;
    EXPECT_EQ(popular.seconds > 0, !popular.text.empty()) << name;
  }
}

// A search that may simulate one candidate finds one. The popular layouts are more candidates, and the best of all is
// proposed.
TEST(WhyNotTest, APopularLayoutThatIsBetterIsProposed) {
  plans::Problem problem = problemOn(gpus(2, Much), 8);
  plans::Evaluated slow = figuresOf(problem, candidateOf(problem)), fast = slow;
  slow.seconds = 2;
  fast.candidate.recompute = "full";
  fast.seconds = 1;
  PlannedNumber planned;
  planned.problem = problem;
  planned.rows.push_back({slow, ""});
  addToTable(planned, PopularPlans(1, {slow, fast}));
  ASSERT_EQ(planned.rows.size(), 2U);
  EXPECT_EQ(planned.best().candidate, fast.candidate);
  EXPECT_EQ(planned.rows[1].plan.candidate, slow.candidate);
  plans::Evaluated large = fast;
  large.candidate.recompute = "none";
  large.lack = 1;
  addToTable(planned, PopularPlans(1, {large}), 1);
  ASSERT_EQ(planned.rows.size(), 1U); // what does not fit is no row
  EXPECT_EQ(planned.best().candidate, fast.candidate);
}

TEST(WhyNotTest, ABatchThatDoesNotDivide) {
  plans::Problem problem = problemOn(gpus(2, Much), 8);
  problem.model.batch = 2;
  EXPECT_EQ(popularOf(problem).at("plain data parallelism").verdict,
            "not possible: a global batch of 2 samples does not divide among 8 ranks");
}

TEST(WhyNotTest, CountsNameTheBoundsThatPruned) {
  PlannedNumber planned;
  planned.problem = problemOn(gpus(2, Much), 8);
  planned.outcome.considered = 1234;
  planned.outcome.evaluated.resize(100);
  auto bytes = std::ranges::find(plans::bounds(), plans::Bound::Of::Bytes, &plans::Bound::of);
  ASSERT_NE(bytes, plans::bounds().end());
  planned.outcome.pruned = {{bytes->name, 1000, 1.2e9}, {"another", 134, 0.25}, {"none", 0, 0}};
  planned.rows.push_back({step(0.2, 0, 0), ""});
  EXPECT_EQ(countLines(planned),
            (std::vector<std::string>{
                "considered 1,234 plans; simulated 100 plans",
                fmt::format("pruned 1,000 plans by {}: the closest takes at least 1.2 GB, and a rank may have 1 GB",
                            bytes->name),
                "pruned 134 plans by another: the closest takes at least 250 ms, and the best takes 200 ms"}));
  planned.outcome.isComplete = false;
  planned.outcome.considered = 2234;
  EXPECT_EQ(countLines(planned).front(),
            "considered 2,234 plans; simulated 100 plans, as many as --effort allows; 1,000 plans neither simulated "
            "nor excluded: there may be better ones");
  planned.outcome.evaluated[3].lack = 2e9;
  planned.outcome.evaluated[7].lack = 1e9;
  planned.outcome.evaluated[8].problem = "no stages";
  std::vector<std::string> lines = countLines(planned);
  ASSERT_EQ(lines.size(), 5U);
  EXPECT_EQ(lines[3], "2 of those simulated do not fit: the closest lacks 1 GB");
  EXPECT_EQ(lines[4], "1 plan could not be compiled, such as dp=1, ddp: no stages");
}

// 300 billion tokens at 2 million a step are 150,000 steps; of two seconds each, 300,000 s; by 8 devices at three
// dollars an hour, 2,000 dollars.
TEST(WhyNotTest, ATrainingTakesItsTokens) {
  PlanAnswer answer;
  answer.numbers.resize(1);
  answer.numbers[0].problem = problemOn(gpus(2, Much), 8);
  answer.numbers[0].problem.model.batch = 1000;
  answer.numbers[0].problem.model.sequence = 2000;
  answer.target = {.tokens = 300e9, .days = 0, .price = 3};
  EXPECT_DOUBLE_EQ(trainingSeconds(answer, 2), 300'000);
  EXPECT_DOUBLE_EQ(trainingCost(answer, 2, 8), 2'000);
  EXPECT_EQ(durationText(300'000), "3.47 days");
  EXPECT_EQ(durationText(864e5 * 1.5), "1,500 days");
  EXPECT_EQ(durationText(7200), "2 h");
  EXPECT_EQ(durationText(1631), "27.2 min");
  EXPECT_EQ(durationText(90), "90 s");
  // 150,000 steps of 0.576 s are a day.
  PlanTarget target = {.tokens = 300e9, .days = 1, .price = 0};
  EXPECT_TRUE(isInTime(target, 0.575, 2e6));
  EXPECT_FALSE(isInTime(target, 0.577, 2e6));
}

TEST(WhyNotTest, NumbersAreReadable) {
  EXPECT_EQ(quantityText(7952), "7,952");
  EXPECT_EQ(quantityText(124'439'808), "124.4 million");
  EXPECT_EQ(quantityText(300e9), "300 billion");
  EXPECT_EQ(quantityText(1.008e12), "1.008 trillion");
  EXPECT_EQ(costText(7.254), "$7.25");
  EXPECT_EQ(costText(1'234'567), "$1,234,567");
}

} // namespace
} // namespace dtc
