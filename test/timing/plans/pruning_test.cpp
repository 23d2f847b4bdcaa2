// What relatives prune, with made-up figures.
#include "timing/plans/holding.h"
#include "timing/plans/search.h"

#include "test/timing/plans/models.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace dtc::plans {
namespace {

/// Evaluates by filling in made-up figures, and notes what it was asked.
Evaluate noting(std::vector<Candidate> &asked, std::function<void(Evaluated &)> fill) {
  return [&asked, fill](std::span<const Candidate> some) {
    std::vector<Evaluated> results;
    for (const Candidate &each : some) {
      asked.push_back(each);
      results.emplace_back().candidate = each;
      fill(results.back());
    }
    return results;
  };
}

// Of two that differ only in what is recomputed, the one that recomputes more is pruned by the step of the other, which
// is evaluated first: where 5% less is still slower than what was found.
TEST(Search, PrunesWhatRecomputesMore) {
  Problem problem = problemOn(roundGpus(1, 8), 8);
  problem.model.batch = 8;
  auto secondsOf = [&](const Candidate &each) { // far above all bounds
    return each.sizeOf("dp") != 8 ? 1.0 : each.state == "ddp" ? 0.9 : each.state == "zero1" ? 0.94 : 0.96;
  };
  std::vector<Candidate> asked;
  bool arePassesKnown = true;
  Evaluate evaluate = noting(asked, [&](Evaluated &result) {
    result.seconds = secondsOf(result.candidate);
    if (arePassesKnown)
      result.passes = {{0, 0, 0}};
  });
  auto isAsked = [&](const std::string &state) {
    return std::ranges::any_of(asked, [&](const Candidate &each) {
      return each.sizeOf("dp") == 8 && each.state == state && each.microBatches == 1 && each.recompute == "full";
    });
  };
  SearchOptions options;
  options.atOnce = 1000;
  Outcome outcome = search(problem, {}, evaluate, options);
  EXPECT_TRUE(isAsked("ddp"));
  EXPECT_TRUE(isAsked("zero1")) << "0.95 * 0.94 < 0.9";
  EXPECT_FALSE(isAsked("zero3")) << "0.95 * 0.96 > 0.9";
  EXPECT_EQ(std::ranges::count(outcome.pruned, lighterName, &PrunedBy::bound), 1);
  arePassesKnown = false;
  asked.clear();
  search(problem, {}, evaluate, options);
  EXPECT_TRUE(isAsked("zero3")) << "stages may be cut otherwise";
}

// What has twice as many micro-batches does the same work in smaller pieces: its busiest rank is busy for no less.
// Eight data-parallel ranks are the fastest, and busy for too short a time to say anything; all others have one
// micro-batch.
TEST(Search, PrunesWhatHasMoreMicroBatches) {
  Problem problem = problemOn(roundGpus(1, 8), 8);
  problem.model.batch = 8;
  std::vector<Candidate> asked;
  Evaluate evaluate = noting(asked, [](Evaluated &result) {
    bool isFast = result.candidate.sizeOf("dp") == 8;
    result.seconds = isFast ? 0.9 : 1.0;
    result.busy = isFast ? 0.5 : 0.95;
    result.passes = {{0, 0, 0}};
  });
  auto areMoreAsked = [&] {
    return std::ranges::any_of(asked, [](const Candidate &each) {
      return each.sizeOf("dp") != 8 && each.sizeOf("pp") == 1 && each.microBatches > 1;
    });
  };
  SearchOptions options;
  options.atOnce = 1000; // what begins in a round is waited for
  Outcome outcome = search(problem, {}, evaluate, options);
  EXPECT_FALSE(areMoreAsked());
  EXPECT_EQ(std::ranges::count(outcome.pruned, fewerName, &PrunedBy::bound), 1);

  // 0.9 of 0.95 is less than 0.9.
  std::string small =
      "efficiencies { kernel_class: \"reduction\" points { flops: 1 bytes: 1e3 share: 0.8 } points { flops: 1 "
      "bytes: 1e6 share: 0.72 } }\n";
  std::string cluster = roundGpus(1, 8);
  problem.cluster = timing::parseCluster(cluster.insert(cluster.find("efficiencies"), small), "small.textproto");
  asked.clear();
  search(problem, {}, evaluate, options);
  EXPECT_TRUE(areMoreAsked());
}

// By kernels, or by collectives of as many ranks.
TEST(BoundContext, KnowsHowMuchMoreEfficientSmallPiecesAre) {
  EXPECT_EQ(BoundContext(problemOn(roundGpus(1, 2), 2)).wholeShare(), 1);
  auto shareWith = [](const std::string &measured) {
    std::string cluster = roundGpus(1, 2);
    cluster.insert(cluster.rfind('}'), measured);
    return BoundContext(problemOn(cluster, 2)).wholeShare();
  };
  std::string small = "measured { collective: \"send\" ranks: 2 bytes: 1e3 seconds: 1e-6 }";
  EXPECT_EQ(shareWith(small + "measured { collective: \"send\" ranks: 2 bytes: 4e3 seconds: 3e-6 }"), 1);
  EXPECT_DOUBLE_EQ(shareWith(small + "measured { collective: \"send\" ranks: 2 bytes: 4e3 seconds: 5e-6 }"), 0.8);
  EXPECT_EQ(shareWith(small + "measured { collective: \"send\" ranks: 4 bytes: 4e3 seconds: 5e-6 }"), 1);
}

/// Bytes of state, and a multiple of what layers keep at least: the less is recomputed, the more.
double bytesLike(const BoundContext &context, const Candidate &candidate) {
  Holding holding{BoundInputs(context, candidate)};
  std::map<std::string, double> times = {{"none", 40}, {"cheap", 30}, {"regather", 20}, {"selective", 15}, {"full", 2}};
  return holding.state + times[candidate.recompute] * holding.kept;
}

// Ranks may have 6 MB. All state takes 14; of zero3's eighth, with all that layers keep, 7.
TEST(Search, TriesLastWhatWillProbablyNotFit) {
  Problem problem = problemOn(roundGpus(1, 8), 8);
  problem.memoryLimit = 6'000'000;
  BoundContext context(problem);
  std::vector<Candidate> asked;
  auto complete = [&](Evaluated &result) {
    result.bytes = bytesLike(context, result.candidate);
    result.lack = std::max(0.0, result.bytes - context.roomOfAll());
    result.seconds = 3 * leastOf(context, result.candidate).seconds;
  };
  Outcome outcome = search(problem, {}, noting(asked, complete), {.atOnce = 1});
  double best = std::numeric_limits<double>::infinity();
  int64_t misfits = 0;
  forEachCandidate(problem, {}, [&](const Candidate &each) {
    Evaluated result;
    result.candidate = each;
    complete(result);
    misfits += result.lack > 0;
    if (result.fits())
      best = std::min(best, result.seconds);
  });
  ASSERT_TRUE(outcome.best);
  EXPECT_EQ(outcome.evaluated[*outcome.best].seconds, best);

  std::set<std::string> known; // ways to recompute of layers that are split alike
  size_t lastFit = 0, firstGuessed = outcome.evaluated.size();
  for (size_t i = 0; i < outcome.evaluated.size(); ++i) {
    const Evaluated &each = outcome.evaluated[i];
    const Candidate &its = each.candidate;
    bool isKnown = !known.insert(fmt::format("{} {} {}", its.sizeOf("tp"), its.splitsSequence, its.recompute)).second;
    if (each.fits())
      lastFit = i;
    else if (isKnown)
      firstGuessed = std::min(firstGuessed, i);
  }
  EXPECT_LT(lastFit, firstGuessed) << outcome.evaluated[std::min(firstGuessed, lastFit)].candidate.text();
  auto byMemory = std::ranges::find(outcome.pruned, holdingName, &PrunedBy::bound);
  ASSERT_NE(byMemory, outcome.pruned.end());
  EXPECT_GT(byMemory->closest, context.roomOfAll());
  EXPECT_GT(byMemory->candidates, 0);
  EXPECT_GT(misfits, 100);
}

TEST(HoldingEstimate, IsAMultipleOfWhatLayersKeepAtLeast) {
  Problem problem = problemOn(roundGpus(1, 8), 8);
  BoundContext context(problem);
  auto holdingOf = [&](int64_t microBatches, const std::string &recompute) {
    Candidate candidate = candidateOf({{"dp", 8}}, "zero3", microBatches);
    candidate.recompute = recompute;
    return Holding(BoundInputs(context, candidate));
  };
  Holding one = holdingOf(1, "none"), two = holdingOf(2, "none");
  HoldingEstimate estimate;
  EXPECT_EQ(estimate.bytesOf(one), 0);
  estimate.learn(one, one.state + 10 * one.kept);
  EXPECT_DOUBLE_EQ(estimate.bytesOf(two), two.state + 5 * one.kept);
  EXPECT_EQ(estimate.bytesOf(holdingOf(1, "full")), 0) << "it keeps something else";
  estimate.learn(two, two.state + 20 * two.kept);
  EXPECT_DOUBLE_EQ(estimate.bytesOf(one), one.state + 15 * one.kept) << "the mean";
}

} // namespace
} // namespace dtc::plans
