// What relatives prune, with made-up figures.
#include "timing/plans/search.h"

#include "test/timing/plans/models.h"

#include <algorithm>
#include <functional>
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

} // namespace
} // namespace dtc::plans
