// What candidates hold against what others hold, for models whose memory is not a matter of rounding.
#include "timing/plans/holding.h"

#include "test/long_tests.h"
#include "test/tools/dtc/plan/plan_models.h"
#include "timing/plans/dimensions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <tuple>
#include <vector>

namespace dtc::test {
namespace {

using plans::Candidate;
using plans::Evaluated;

using Axes = std::tuple<int64_t, int64_t, int64_t, int64_t>;

/// Some candidates of each of some sizes of axes.
std::map<Axes, std::vector<Candidate>> drawCandidates(const plans::Problem &problem, size_t classes, size_t each) {
  std::map<Axes, std::vector<Candidate>> byAxes, drawn;
  plans::forEachCandidate(problem, {}, [&](const Candidate &candidate) {
    byAxes[{candidate.sizeOf("tp"), candidate.sizeOf("cp"), candidate.sizeOf("pp"), candidate.sizeOf("dp")}].push_back(
        candidate);
  });
  std::mt19937 random(1);
  std::vector<Axes> keys;
  for (const auto &[axes, candidates] : byAxes)
    keys.push_back(axes);
  std::shuffle(keys.begin(), keys.end(), random);
  keys.resize(std::min(classes, keys.size()));
  for (const Axes &axes : keys)
    std::ranges::sample(byAxes[axes], std::back_inserter(drawn[axes]), static_cast<std::ptrdiff_t>(each), random);
  return drawn;
}

/// Returns how many pairs differ by more than a tenth: others say little.
size_t comparePairs(const plans::Problem &problem, const std::vector<Evaluated> &evaluated) {
  plans::BoundContext context(problem);
  std::vector<plans::Holding> holding;
  for (const Evaluated &each : evaluated)
    holding.emplace_back(plans::BoundInputs(context, each.candidate));
  size_t different = 0;
  for (size_t i = 0; i < evaluated.size(); ++i)
    for (size_t k = 0; k < evaluated.size(); ++k) {
      const Evaluated &one = evaluated[i], &other = evaluated[k];
      if (!one.problem.empty() || !other.problem.empty() || !plans::holdsMore(holding[i], holding[k]))
        continue;
      EXPECT_GE(one.bytes, plans::holdingShare * other.bytes)
          << one.candidate.text() << " holds more than " << other.candidate.text();
      different += one.bytes > 1.1 * other.bytes;
    }
  return different;
}

TEST(Holding, MoreTakesHardlyLess) {
  const bool isLong = testsMayBeLong();
  for (bool isLlama : {false, true}) {
    ModelFolder model({.isLlama = isLlama,
                       .isTied = !isLlama,
                       .layers = 4,
                       .heads = 4,
                       .keyHeads = 2,
                       .hidden = 256,
                       .mlp = 1024,
                       .vocabulary = 4096,
                       .positions = 256});
    CompileRequest request = requestFor(model, 16);
    request.assignments.emplace_back("compute=bf16");
    timing::Cluster cluster = clusterOf(2, 4);
    Evaluator evaluator(request, cluster, 2);
    plans::Problem problem = problemOf(evaluator, cluster, 8);
    size_t different = 0;
    for (const auto &[axes, candidates] : drawCandidates(problem, isLong ? 20 : 4, isLong ? 100 : 25))
      different += comparePairs(problem, evaluator.evaluate(problem, candidates));
    EXPECT_GT(different, 50U);
  }
}

} // namespace
} // namespace dtc::test
