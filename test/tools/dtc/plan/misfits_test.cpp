// What is said where there is no plan.
#include "test/tools/dtc/plan/problems.h"
#include "tools/dtc/plan/NoCandidate.h"
#include "tools/dtc/plan/TooSmall.h"

#include "runtime/support/error.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace dtc {
namespace {

using plans::Constraint;
using testing::HasSubstr;

constexpr int64_t Much = 1'000'000'000;

std::vector<Constraint> fixing(const std::vector<std::string> &texts) {
  std::vector<Constraint> all;
  for (const std::string &text : texts)
    all.push_back(plans::parseConstraint(text, /*isFixed=*/true));
  return all;
}

template <typename Function> std::string refusal(const Function &function) {
  try {
    function();
  } catch (const Error &error) {
    EXPECT_EQ(error.exitCode(), ExitCode::BadInput);
    return error.what();
  }
  return "nothing was refused";
}

// 7 is a prime that divides neither the heads, nor the batch, nor the sequence, and there are four layers. 6 has three
// stages, 8 divides the batch.
TEST(MisfitsTest, DevicesThatNoMeshDivides) {
  std::string said = refusal([] { requireCandidates(problemOn(gpus(2, Much), 7), {}); });
  EXPECT_EQ(said,
            "--devices 7: no mesh of 7 devices divides small, which has 4 layers, 4 heads, sequences of 32 tokens and "
            "a global batch of 8 samples; try --devices 6 or 8");
}

TEST(MisfitsTest, ConstraintsThatContradictEachOther) {
  // 4 x 4 ranks are more than 8; recompute has nothing to do with it.
  std::string said = refusal([] {
    requireCandidates(problemOn(gpus(2, Much), 8), fixing({"recompute=full", "tp=4", "dp=4"}));
  });
  EXPECT_EQ(said,
            "--fix tp=4 and --fix dp=4: no plan for 8 devices meets both; leave out --fix tp=4, or take tp 1 or 2");
}

// No two of them contradict each other: 2 x 2 x 4 ranks are more than 8.
TEST(MisfitsTest, ThreeConstraintsThatContradictEachOther) {
  std::string said = refusal([] {
    requireCandidates(problemOn(gpus(2, Much), 8), fixing({"tp=2", "recompute=full", "pp=2", "dp=4"}));
  });
  EXPECT_EQ(said, "--fix tp=2, --fix pp=2 and --fix dp=4: no plan for 8 devices meets all of them; leave out --fix "
                  "tp=2, or take tp 1");
}

// Two pairs contradict each other, so two constraints must give way.
TEST(MisfitsTest, TheSmallestSetThatMustGiveWay) {
  std::vector<Constraint> constraints = fixing({"ddp", "recompute=full"});
  constraints.push_back(plans::parseConstraint("ddp", /*isFixed=*/false));
  constraints.push_back(plans::parseConstraint("recompute=full", /*isFixed=*/false));
  std::string said = refusal([&] { requireCandidates(problemOn(gpus(2, Much), 8), constraints); });
  EXPECT_EQ(said, "--fix ddp, --fix recompute=full, --forbid ddp and --forbid recompute=full: no plan for 8 devices "
                  "meets all of them; leave out --fix ddp and --fix recompute=full");
}

TEST(MisfitsTest, AConstraintThatNothingMeets) {
  // Three ranks do not divide four heads; eight do not, either.
  std::string said = refusal([] { requireCandidates(problemOn(gpus(2, Much), 8), fixing({"tp=3"})); });
  EXPECT_THAT(said,
              HasSubstr("--fix tp=3: no plan for 8 devices meets that, because small has 4 layers, 4 heads, sequences "
                        "of 32 tokens and a global batch of 8 samples; leave it out, or take tp 1, 2 or 4"));
}

TEST(MisfitsTest, PossibleNumbersAreNotRefused) {
  requireCandidates(problemOn(gpus(2, Much), 8), fixing({"tp=4", "dp=2"}));
}

TEST(MisfitsTest, AClusterThatIsTooSmall) {
  // What the leanest candidate of eight devices needs, and a little more.
  double leanest = 1e18;
  for (const plans::Evaluated &each : allFigures(problemOn(gpus(2, Much), 8)))
    leanest = std::min(leanest, each.bytes);
  auto memory = static_cast<int64_t>(1.01 * leanest);
  plans::Problem problem = problemOn(gpus(1, memory), 1);
  double lack = 1e18;
  for (const plans::Evaluated &each : allFigures(problem))
    lack = std::min(lack, each.lack);
  ASSERT_GT(lack, 0);
  int64_t expected = 0; // of devices, the fewest on which something fits
  for (int64_t devices = 2; expected == 0 && devices <= 64; ++devices)
    for (const plans::Evaluated &each : allFigures(problemOn(gpus(16, memory), devices)))
      if (each.fits())
        expected = devices;
  ASSERT_GT(expected, 1);
  CountingEvaluator counting;
  PlanSearch search(problem, {}, counting.function(), {.rows = 10, .most = 0});
  PlannedNumber planned = search.plan(1);
  ASSERT_FALSE(planned.fits());
  std::string said = refusal([&] { refuseTooSmall(search, planned, "models/small"); });
  EXPECT_THAT(said, HasSubstr("models/small: no plan fits on 1 device of the cluster 'made up'"));
  EXPECT_THAT(said, HasSubstr(fmt::format("({:.0f} bytes) of memory", std::ceil(lack))));
  EXPECT_THAT(said, HasSubstr(fmt::format("; {} devices like these would do, ", expected)));
}

TEST(MisfitsTest, AConstraintInTheWay) {
  // With zero3 some candidate fits into what is between the least of zero3 and the least of ddp.
  plans::Problem problem = problemOn(gpus(1, Much), 4);
  auto leastOf = [&](const char *what) {
    double least = 1e18;
    for (const plans::Evaluated &each : allFigures(problem, fixing({what, "tp=1", "pp=1", "cp=1"})))
      least = std::min(least, each.bytes);
    return least;
  };
  double sharded = leastOf("zero3"), whole = leastOf("ddp");
  ASSERT_LT(sharded, whole);
  plans::Problem little = problemOn(gpus(1, static_cast<int64_t>((sharded + whole) / 2)), 4);
  CountingEvaluator counting;
  PlanSearch search(little, fixing({"ddp", "tp=1", "pp=1", "cp=1"}), counting.function(), {.rows = 10, .most = 0});
  PlannedNumber planned = search.plan(4);
  ASSERT_FALSE(planned.fits());
  EXPECT_THAT(refusal([&] { refuseTooSmall(search, planned, "small"); }),
              HasSubstr("without --fix ddp there is a plan that fits"));
}

// What the user withholds is said, because giving more of it may be enough.
TEST(MisfitsTest, MemoryThatIsLeftFreeIsSaid) {
  plans::Problem problem = problemOn(gpus(1, 1000), 1);
  problem.margin = 0.25;
  problem.memoryLimit = 600;
  CountingEvaluator counting;
  PlanSearch search(problem, {}, counting.function(), {.rows = 10, .most = 0});
  PlannedNumber planned = search.plan(1);
  ASSERT_FALSE(planned.fits());
  EXPECT_THAT(refusal([&] { refuseTooSmall(search, planned, "small"); }),
              testing::EndsWith("; --margin 0.25 leaves 25% of the memory free; --memory-limit lets a rank have 600 "
                                "bytes"));
}

} // namespace
} // namespace dtc
