// What a plan says about relatives: by hand, and by what must not change it.
#include "tools/dtc/plan/SurePasses.h"
#include "test/tools/dtc/plan/plan_models.h"
#include "timing/cost/cost.h"

#include <gtest/gtest.h>

namespace dtc::test {
namespace {

// a; an exchange of its result; b reads that. c reads nothing.
TEST(LeastSpan, WaitsForExchangesThatNothingFills) {
  Producers producers = {{}, {0}, {1}, {}};
  auto span = [&](double c) { return leastSpan(producers, {{1, 0, 2, c}, {0, 5, 0, 0}}); };
  EXPECT_EQ(span(0), 1 + 5 + 2);
  EXPECT_EQ(span(3), 1 + 5 + 2) << "c runs during the exchange";
  EXPECT_EQ(span(10), 1 + 2 + 10) << "the kernels alone take longer";
}

// Two kernels follow the exchange: both run behind it, one after the other.
TEST(LeastSpan, AddsUpWhatBeginsLate) {
  EXPECT_EQ(leastSpan({{}, {0}, {1}, {1}}, {{1, 0, 2, 3}, {0, 5, 0, 0}}), 1 + 5 + 2 + 3);
}

// From the first kernel to the last: an exchange before may be over when the function begins, and one behind may go on.
TEST(LeastSpan, IsThatOfKernels) {
  EXPECT_EQ(leastSpan({{}, {0}, {1}, {2}}, {{0, 1, 2, 0}, {7, 0, 0, 7}}), 3);
  EXPECT_EQ(leastSpan({}, {}), 0);
}

plans::Candidate candidateOf(const char *axis, const std::string &state = "ddp", int64_t microBatches = 1) {
  plans::Candidate candidate;
  candidate.mesh = {{axis, 2}};
  candidate.state = state;
  candidate.microBatches = microBatches;
  return candidate;
}

// Forward, each of the layers has two sums over tensor-parallel ranks, and everything behind waits for them. Gradients
// that move between data-parallel ranks hold nothing up.
TEST(SurePasses, HaveTheWaitingForActivations) {
  ModelFolder model({.layers = 4});
  std::vector<double> tensor, data, sums;
  for (double bandwidth : {1e9, 1e6}) {
    timing::Cluster cluster = clusterOf(2, 1, bandwidth);
    Evaluator evaluator(requestFor(model, 8), cluster, 1);
    std::vector<plans::Evaluated> found =
        evaluator.evaluate(problemOf(evaluator, cluster, 2), {{candidateOf("tp"), candidateOf("dp")}});
    EXPECT_LE(found[0].busy, found[0].seconds);
    tensor.push_back(found[0].busy);
    data.push_back(found[1].busy);
    abi::Mesh mesh;
    mesh.add_axes()->set_name("tp");
    mesh.mutable_axes(0)->set_size(2);
    timing::Layout layout(cluster, mesh);
    double bytes = 8 * 8 * 8 * 4; // samples, tokens, hidden size and f32
    sums.push_back(timing::collectiveCost(layout.cluster(), abi::Collective::ALL_REDUCE, bytes,
                                          layout.spanOf(std::vector<int64_t>{0, 1}))
                       .seconds);
  }
  EXPECT_GE(tensor[1] - tensor[0], 0.999 * 2 * 4 * (sums[1] - sums[0]));
  EXPECT_NEAR(data[0], data[1], 0.01 * (sums[1] - sums[0]));
}

// Parameters that are converted, gathered or looked up elsewhere do not count, nor does what gradients are added to.
TEST(SurePasses, AreTheSameHoweverStateIsSplit) {
  for (const char *setting : {"compute=f32", "compute=bf16"})
    for (const char *target : {"", "cuda:sm_90"}) {
      ModelFolder model({.layers = 4});
      CompileRequest request = requestFor(model, 8);
      request.assignments.push_back(setting);
      if (*target)
        request.target = target;
      timing::Cluster cluster = clusterOf(1, 2);
      Evaluator evaluator(request, cluster, 1);
      plans::Problem problem = problemOf(evaluator, cluster, 2);
      for (int64_t microBatches : {1, 2}) {
        std::vector<plans::Candidate> candidates;
        for (const char *state : {"ddp", "zero1", "zero2", "zero3"})
          candidates.push_back(candidateOf("dp", state, microBatches));
        std::vector<plans::Evaluated> found = evaluator.evaluate(problem, candidates);
        for (const plans::Evaluated &each : found) {
          SCOPED_TRACE(each.candidate.text() + ", " + setting + " " + target);
          ASSERT_EQ(each.problem, "");
          EXPECT_GT(each.busy, 0.1 * each.compute);
          EXPECT_NEAR(each.busy, found.front().busy, 0.02 * each.busy);
        }
      }
    }
}

} // namespace
} // namespace dtc::test
