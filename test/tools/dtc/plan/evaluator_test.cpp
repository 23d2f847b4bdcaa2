// What is said about candidates, compared with programs that are compiled, and with formulas.
#include "dialect/IR/Names.h"
#include "runtime/support/error.h"
#include "test/tools/dtc/plan/plan_models.h"
#include "timing/events/forecast.h"
#include "tools/dtc/Program.h"
#include "tools/dtc/plan/PlanFloor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

using testing::HasSubstr;

namespace dtc::test {
namespace {

constexpr ModelSizes small = {.layers = 4};

plans::Candidate candidateOf(std::vector<plans::MeshAxis> mesh, const std::string &state = "ddp",
                             int64_t microBatches = 1, const std::string &recompute = "cheap",
                             const std::string &timetable = "1f1b") {
  plans::Candidate candidate;
  candidate.mesh = std::move(mesh);
  candidate.state = state;
  candidate.microBatches = microBatches;
  candidate.recompute = recompute;
  candidate.timetable = timetable;
  return candidate;
}

std::vector<plans::Candidate> someCandidates() {
  return {candidateOf({{"dp", 4}}),
          candidateOf({{"dp", 4}}, "ddp", 2),
          candidateOf({{"dp", 4}}, "zero3", 2, "full"),
          candidateOf({{"tp", 2}}, "ddp", 2, "selective"),
          candidateOf({{"dp", 2}, {"tp", 2}}, "zero1", 1, "none"),
          candidateOf({{"pp", 2}}, "ddp", 4),
          candidateOf({{"pp", 2}, {"dp", 2}}, "zero1", 4, "full"),
          candidateOf({{"pp", 2}}, "ddp", 4, "cheap", "zbv")};
}

/// Everything that was said.
auto figuresOf(const plans::Evaluated &one) {
  return std::tuple(one.problem, one.seconds, one.band, one.bytes, one.lack, one.floor, one.busy, one.compute,
                    one.exposed, one.bubble, one.host, one.sent, one.mfu);
}

/// The program that `dtc compile --choices` makes of it, without code.
abi::Manifest compiled(CompileRequest request, const plans::Candidate &candidate, const std::string &choices,
                       const timing::Layout &layout) {
  request.mesh = candidate.meshText();
  request.strategy = candidate.strategyText();
  request.assignments.push_back(fmt::format("accumulation={}", candidate.microBatches));
  request.choicesText = choices;
  request.layout = &layout;
  request.scheduleEffort = 1;
  return LoadedModel(request).compile(/*generateCode=*/false).manifest;
}

abi::Mesh meshOf(const plans::Candidate &candidate) {
  abi::Mesh mesh;
  for (const plans::MeshAxis &axis : candidate.mesh) {
    mesh.add_axes()->set_name(axis.name);
    mesh.mutable_axes()->rbegin()->set_size(axis.size);
  }
  return mesh;
}

double neededBy(const abi::Manifest &manifest) {
  uint64_t most = 0;
  for (const abi::Role &role : manifest.roles())
    most = std::max<uint64_t>(most, role.arena_bytes());
  return static_cast<double>(most + scratchBytes(manifest));
}

// d hidden, L layers, V vocabulary, P positions, f inner width, s sequence: a layer has 4 d^2 + 2 d f weights, biases
// of 3 d, d, f and d, and two norms of 2 d. A multiply-add is two operations, and a backward pass takes twice as many
// as a forward pass; attention multiplies s pairs for each token twice.
TEST(Evaluator, FactsOfGpt2) {
  for (bool isTied : {true, false}) {
    ModelFolder model({.isTied = isTied, .layers = 3, .hidden = 8, .mlp = 24, .vocabulary = 13, .positions = 16});
    CompileRequest request = requestFor(model, 12);
    request.assignments.push_back("sequence_length=10");
    plans::ModelFacts facts = Evaluator(request, clusterOf(1, 2), 1).facts();
    EXPECT_EQ(facts.name, "gpt2");
    EXPECT_EQ(facts.layers, 3);
    EXPECT_EQ(facts.heads, 2);
    EXPECT_EQ(facts.keyHeads, 2);
    EXPECT_EQ(facts.hidden, 8);
    EXPECT_EQ(facts.vocabulary, 13);
    EXPECT_EQ(facts.sequence, 10);
    EXPECT_EQ(facts.batch, 12);
    EXPECT_EQ(facts.layerParameters, 4 * 64 + 2 * 8 * 24 + (3 + 1 + 1) * 8 + 24 + 2 * 2 * 8);
    EXPECT_EQ(facts.firstParameters, (13 + 16) * 8);
    EXPECT_EQ(facts.lastParameters, 2 * 8 + (isTied ? 0 : 13 * 8)) << "a tied table counts once, in front";
    EXPECT_EQ(facts.flopsPerToken, 3 * (3 * (2 * (4 * 64 + 2 * 8 * 24) + 4 * 10 * 8) + 2 * 13 * 8));
    EXPECT_EQ(facts.compute, abi::F32);
    EXPECT_EQ(facts.slotBytes, 8) << "two moments of f32";
  }
}

// Three projections of the MLP; keys and values of fewer heads; two norms without biases.
TEST(Evaluator, FactsOfLlama) {
  ModelFolder model({.isLlama = true, .isTied = false, .layers = 2, .heads = 4, .keyHeads = 2, .hidden = 16, .mlp = 20,
                     .vocabulary = 11});
  CompileRequest request = requestFor(model, 4);
  request.assignments.insert(request.assignments.end(),
                             {"compute=bf16", "gradients=bf16", "optimizer=sgd", "momentum=0.9"});
  plans::ModelFacts facts = Evaluator(request, clusterOf(1, 2), 1).facts();
  EXPECT_EQ(facts.heads, 4);
  EXPECT_EQ(facts.keyHeads, 2);
  EXPECT_EQ(facts.layerParameters, 2 * 16 * 16 + 2 * 16 * 8 + 3 * 16 * 20 + 2 * 16);
  EXPECT_EQ(facts.firstParameters, 11 * 16);
  EXPECT_EQ(facts.lastParameters, 16 + 11 * 16);
  EXPECT_EQ(facts.compute, abi::BF16);
  EXPECT_EQ(facts.gradients, abi::BF16);
  EXPECT_EQ(facts.slotBytes, 4) << "one buffer of f32";
}

TEST(Evaluator, AWrongSettingIsAnError) {
  ModelFolder model(small);
  CompileRequest request = requestFor(model, 4);
  request.assignments.push_back("sequence_length=1000");
  EXPECT_THROW((void)Evaluator(request, clusterOf(1, 2), 1).facts(), Error);
}

// Refined with no more than a cut: exactly the program that is compiled with these choices. With a search: no longer.
TEST(Evaluator, FiguresAreThoseOfThePrograms) {
  ModelFolder model(small);
  CompileRequest request = requestFor(model, 8);
  for (double slowness : {1.0, 3.0}) {
    timing::Cluster cluster = clusterOf(2, 2, 2e8, slowness);
    Evaluator evaluator(request, cluster, 1);
    plans::Problem problem = problemOf(evaluator, cluster, 4);
    for (const plans::Candidate &candidate : someCandidates()) {
      SCOPED_TRACE(candidate.text() + fmt::format(", {} times as slow", slowness));
      plans::Evaluated found = evaluator.evaluate(problem, {{candidate}}).front();
      ASSERT_EQ(found.problem, "");
      timing::Layout layout(cluster, meshOf(candidate));
      for (uint64_t effort : {1, 12}) {
        RefinedPlan refined = evaluator.refine(problem, found, {effort});
        EXPECT_LE(refined.evaluated.seconds, found.seconds);
        abi::Manifest program = compiled(request, candidate, refined.choices, layout);
        timing::Forecast forecast = timing::forecastStep(program, layout);
        EXPECT_EQ(refined.evaluated.seconds, forecast.seconds);
        EXPECT_EQ(refined.evaluated.bytes, neededBy(program));
        EXPECT_EQ(refined.evaluated.compute, forecast.compute());
        EXPECT_EQ(refined.evaluated.bubble, forecast.idle());
        EXPECT_EQ(refined.evaluated.exposed, forecast.moving() + forecast.stolen());
        EXPECT_DOUBLE_EQ(refined.evaluated.mfu, forecast.mfu());
        EXPECT_EQ(refined.evaluated.band, 0.07);
        bool recomputesLittle = candidate.recompute == "none" || candidate.recompute == "cheap";
        if (effort == 1 && candidate.sizeOf("pp") == 1 && recomputesLittle) // otherwise memory is free for a mix
          EXPECT_EQ(refined.evaluated.seconds, found.seconds);
      }
    }
  }
}

// An even cut would leave the fast device waiting: what is evaluated is what `dtc compile --cluster` cuts.
TEST(Evaluator, UnevenDevicesAreCutByCosts) {
  ModelFolder model({.layers = 6});
  timing::Cluster cluster = clusterOf(2, 1, 1e9, 8);
  CompileRequest request = requestFor(model, 8);
  Evaluator evaluator(request, cluster, 1);
  plans::Candidate candidate = candidateOf({{"pp", 2}}, "ddp", 4);
  plans::Evaluated found = evaluator.evaluate(problemOf(evaluator, cluster, 2), {{candidate}}).front();
  timing::Layout layout(cluster, meshOf(candidate));
  request.mesh = candidate.meshText();
  request.strategy = candidate.strategyText();
  request.assignments.push_back("accumulation=4");
  request.layout = &layout;
  request.scheduleEffort = 1;
  LoadedModel loaded(request);
  abi::Manifest program = loaded.compile(/*generateCode=*/false).manifest;
  ASSERT_TRUE(loaded.balancedStages());
  EXPECT_NE(loaded.balancedStages()->chosen.layers, loaded.balancedStages()->even.layers);
  EXPECT_EQ(found.seconds, timing::forecastStep(program, layout).seconds);
}

// cuBLAS works in 32 MiB on Hopper.
TEST(Evaluator, ScratchMemoryOfKernelsCounts) {
  ModelFolder model(small);
  CompileRequest request = requestFor(model, 8);
  request.target = "cuda:sm_90";
  timing::Cluster cluster = clusterOf(1, 2);
  Evaluator evaluator(request, cluster, 1);
  plans::Candidate candidate = candidateOf({{"dp", 2}});
  plans::Evaluated found = evaluator.evaluate(problemOf(evaluator, cluster, 2), {{candidate}}).front();
  ASSERT_EQ(found.problem, "");
  abi::Manifest program = compiled(request, candidate, "", timing::Layout(cluster, meshOf(candidate)));
  EXPECT_GE(scratchBytes(program), 32U << 20);
  EXPECT_EQ(found.bytes, neededBy(program));
  auto lackWith = [&](double memory) {
    timing::Cluster tight = clusterOf(1, 2, 1e9, 1, static_cast<uint64_t>(memory));
    Evaluator again(request, tight, 1);
    return again.evaluate(problemOf(again, tight, 2), {{candidate}}).front().lack;
  };
  EXPECT_EQ(lackWith(found.bytes), 0);
  EXPECT_EQ(lackWith(found.bytes - 64), 64);
}

TEST(Evaluator, PartsAddUpToTheStep) {
  ModelFolder model(small);
  timing::Cluster cluster = clusterOf(2, 2, 2e8);
  Evaluator evaluator(requestFor(model, 8), cluster, 1);
  plans::Problem problem = problemOf(evaluator, cluster, 4);
  for (const plans::Evaluated &each : evaluator.evaluate(problem, someCandidates())) {
    SCOPED_TRACE(each.candidate.text());
    EXPECT_NEAR(each.compute + each.exposed + each.bubble + each.host, each.seconds, 1e-9 * each.seconds);
    double peak = 1e11 * static_cast<double>(each.candidate.devices());
    EXPECT_NEAR(each.mfu, problem.model.flops() / (each.seconds * peak), 1e-9 * each.mfu);
    EXPECT_NEAR(each.host, 1e-6, 1e-12) << "step_seconds";
  }
}

// Results depend neither on threads nor on what was evaluated before.
TEST(Evaluator, ThreadsAndOrderChangeNothing) {
  ModelFolder model(small);
  timing::Cluster cluster = clusterOf(2, 2);
  std::vector<plans::Candidate> candidates = someCandidates();
  for (const plans::Candidate &each : someCandidates()) { // more of each placement than one worker gets
    candidates.push_back(each);
    candidates.back().recompute = "regather";
  }
  Evaluator one(requestFor(model, 8), cluster, 1), three(requestFor(model, 8), cluster, 3);
  plans::Problem problem = problemOf(one, cluster, 4);
  std::vector<plans::Evaluated> first = one.evaluate(problem, candidates), second = three.evaluate(problem, candidates);
  std::ranges::reverse(candidates);
  std::vector<plans::Evaluated> third = three.evaluate(problem, candidates);
  std::ranges::reverse(third);
  ASSERT_EQ(first.size(), 16U);
  for (size_t number = 0; number < first.size(); ++number) {
    SCOPED_TRACE(first[number].candidate.text());
    EXPECT_EQ(first[number].candidate, second[number].candidate);
    EXPECT_EQ(figuresOf(first[number]), figuresOf(second[number]));
    EXPECT_EQ(figuresOf(first[number]), figuresOf(third[number]));
  }
}

TEST(Evaluator, MemoryThatIsLackingIsCounted) {
  ModelFolder model(small);
  plans::Candidate candidate = candidateOf({{"dp", 2}});
  auto evaluated = [&](uint64_t memory, uint64_t limit, double margin) {
    timing::Cluster cluster = clusterOf(1, 2, 1e9, 1, memory);
    Evaluator evaluator(requestFor(model, 8), cluster, 1);
    plans::Problem problem = problemOf(evaluator, cluster, 2);
    problem.memoryLimit = limit;
    problem.margin = margin;
    return evaluator.evaluate(problem, {{candidate}}).front();
  };
  plans::Evaluated free = evaluated(0, 0, 0);
  EXPECT_EQ(free.lack, 0);
  auto bytes = static_cast<uint64_t>(free.bytes);
  EXPECT_EQ(evaluated(bytes, 0, 0).lack, 0) << "exactly enough";
  EXPECT_EQ(evaluated(bytes - 1, 0, 0).lack, 1);
  EXPECT_EQ(evaluated(0, bytes, 0).lack, 0);
  EXPECT_EQ(evaluated(0, bytes - 1000, 0).lack, 1000);
  EXPECT_EQ(evaluated(2 * bytes, 0, 0.5).lack, 0) << "half of it stays free";
  EXPECT_EQ(evaluated(2 * bytes - 2, 0, 0.5).lack, 1);
  EXPECT_FALSE(evaluated(bytes - 1, 0, 0).fits());
  EXPECT_EQ(evaluated(bytes - 1, 0, 0).seconds, free.seconds) << "memory takes no time";
}

// What does not fit is refined until it does, if that is possible.
TEST(Evaluator, RefiningRecomputesUntilItFits) {
  ModelFolder model({.layers = 6, .hidden = 32, .mlp = 128, .positions = 128}); // arenas are multiples of 2 MiB
  timing::Cluster cluster = clusterOf(1, 2);
  Evaluator evaluator(requestFor(model, 16), cluster, 1);
  plans::Problem problem = problemOf(evaluator, cluster, 2);
  plans::Candidate keeps = candidateOf({{"dp", 2}}, "ddp", 1, "none"), recomputes = keeps;
  recomputes.recompute = "full";
  std::vector<plans::Evaluated> both = evaluator.evaluate(problem, {{keeps, recomputes}});
  ASSERT_LT(both[1].bytes, both[0].bytes);
  problem.memoryLimit = static_cast<uint64_t>((both[0].bytes + both[1].bytes) / 2);
  both = evaluator.evaluate(problem, {{keeps, recomputes}});
  EXPECT_FALSE(both[0].fits());
  EXPECT_TRUE(both[1].fits());
  for (const plans::Evaluated &each : both) {
    RefinedPlan refined = evaluator.refine(problem, each, {1});
    EXPECT_TRUE(refined.evaluated.fits());
    EXPECT_LE(refined.evaluated.seconds, both[1].seconds);
    EXPECT_LT(refined.evaluated.bytes, both[0].bytes);
    EXPECT_TRUE(refined.isMixed);
    EXPECT_EQ(figuresOf(evaluator.refine(problem, each, {1, false}).evaluated), figuresOf(each)); // nothing is mixed
  }
}

TEST(Evaluator, RefiningManyIsRefiningEach) {
  ModelFolder model(small);
  timing::Cluster cluster = clusterOf(2, 1, 2e8);
  Evaluator evaluator(requestFor(model, 8), cluster, 2);
  plans::Problem problem = problemOf(evaluator, cluster, 2);
  std::vector<plans::Evaluated> found = evaluator.evaluate(
      problem, {{candidateOf({{"dp", 2}}), candidateOf({{"tp", 2}}), candidateOf({{"pp", 2}}, "ddp", 4)}});
  std::vector<RefinedPlan> all = evaluator.refineAll(problem, found, {6});
  ASSERT_EQ(all.size(), 3U);
  for (size_t number = 0; number < all.size(); ++number) {
    RefinedPlan each = evaluator.refine(problem, found[number], {6});
    EXPECT_EQ(each.choices, all[number].choices);
    EXPECT_EQ(figuresOf(each.evaluated), figuresOf(all[number].evaluated));
  }
}

// Nothing is thrown, and nothing printed: other candidates are evaluated.
TEST(Evaluator, WhatIsImpossibleSaysWhy) {
  ModelFolder model({.layers = 2});
  timing::Cluster cluster = clusterOf(1, 4);
  Evaluator evaluator(requestFor(model, 4), cluster, 1);
  plans::Problem problem = problemOf(evaluator, cluster, 4);
  testing::internal::CaptureStderr();
  std::vector<plans::Evaluated> found = evaluator.evaluate(
      problem, {{candidateOf({{"pp", 4}}, "ddp", 4), candidateOf({{"dp", 8}}), candidateOf({{"dp", 2}}, "ddp", 3),
                 candidateOf({{"dp", 4}}), candidateOf({{"pp", 4}}, "ddp", 4)}});
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_THAT(found[0].problem, HasSubstr("layer")) << "four stages of two layers";
  EXPECT_NE(found[1].problem, "") << "eight ranks on four devices";
  EXPECT_THAT(found[2].problem, HasSubstr("not divisible")) << "four samples in three micro-batches";
  EXPECT_EQ(found[3].problem, "");
  EXPECT_EQ(found[4].problem, found[0].problem) << "the second time";
  EXPECT_FALSE(found[0].fits());
}

// max(flops / peak, bytes / bandwidth) / share + launch, whatever the bytes and the size.
TEST(PlanFloor, NoKernelTakesLess) {
  timing::Device device = clusterOf(1, 2).devices(0);
  for (double flops : {1e3, 1e5, 1e7, 1e9})
    for (double bytes : {1.0, 1e3, 1e6})
      EXPECT_LE(leastKernelSeconds(device, abi::Work::PRODUCT, abi::F32, flops),
                timing::kernelSeconds(device, {abi::Work::PRODUCT, abi::F32, flops, bytes}) * (1 + 1e-12));
  EXPECT_DOUBLE_EQ(leastKernelSeconds(device, abi::Work::PRODUCT, abi::F32, 6e10), 2e-7 + 1.0) << "0.6 of 1e11";
  EXPECT_DOUBLE_EQ(leastKernelSeconds(device, abi::Work::ATTENTION, abi::BF16, 2e11), 2e-7 + 1.0) << "no share";
}

// Of each layer four products, of the model the head, each with the gradients of both its operands, and attention with
// its gradient: 4 s d operations for a token, and 10 s d. Products take 0.6 of the peak at best, attention all of it.
double floorOfGpt2(const ModelSizes &sizes, double tokens, double microBatches) {
  auto d = static_cast<double>(sizes.hidden), layers = static_cast<double>(sizes.layers);
  double inLayer = 4 * d * d + 2 * d * static_cast<double>(sizes.mlp), head = d * static_cast<double>(sizes.vocabulary);
  double products = 3 * 2 * tokens * (layers * inLayer + head);
  double attention = 14 * tokens * layers * static_cast<double>(sizes.positions) * d;
  double launches = microBatches * (3 * (4 * layers + 1) + 2 * layers);
  return launches * 2e-7 + (products / 0.6 + attention) / 1e11;
}

// However state is split, whatever is recomputed, and in whatever order: the products are the same.
TEST(PlanFloor, IsThatOfTheProductsAndTheAttention) {
  ModelFolder model(small);
  timing::Cluster cluster = clusterOf(1, 2);
  Evaluator evaluator(requestFor(model, 8), cluster, 1);
  plans::Problem problem = problemOf(evaluator, cluster, 2);
  double tokens = 8 * 8;
  std::vector<plans::Candidate> whole, stages;
  for (const char *recompute : {"none", "cheap", "selective", "full"}) {
    whole.push_back(candidateOf({{"dp", 2}}, "ddp", 2, recompute));
    whole.push_back(candidateOf({{"dp", 2}}, "zero3", 2, recompute));
    stages.push_back(candidateOf({{"pp", 2}}, "ddp", 4, recompute));
    stages.push_back(candidateOf({{"pp", 2}}, "ddp", 4, recompute, "zbv"));
  }
  for (const plans::Evaluated &each : evaluator.evaluate(problem, whole)) {
    double expected = floorOfGpt2(small, tokens / 2, 2);
    EXPECT_NEAR(each.floor, expected, 1e-9 * expected) << each.candidate.text();
    EXPECT_LT(each.floor, each.compute);
  }
  for (const plans::Evaluated &each : evaluator.evaluate(problem, stages)) {
    double expected = floorOfGpt2({.layers = 2}, tokens, 4); // half of the layers, and the head
    EXPECT_NEAR(each.floor, expected, 1e-9 * expected) << each.candidate.text();
    EXPECT_LT(each.floor, each.seconds);
  }
}

// Stages may be cut so that the fast device does nearly everything, and all ranks take equally long.
TEST(PlanFloor, OfUnevenDevicesIsThatOfAnyCut) {
  ModelFolder model(small);
  plans::Candidate stages = candidateOf({{"pp", 2}}, "ddp", 4), whole = candidateOf({{"dp", 2}});
  auto floorsWith = [&](double slowness) {
    timing::Cluster cluster = clusterOf(2, 1, 1e9, slowness);
    Evaluator evaluator(requestFor(model, 8), cluster, 1);
    std::vector<plans::Evaluated> found = evaluator.evaluate(problemOf(evaluator, cluster, 2), {{stages, whole}});
    return std::pair(found[0].floor, found[1].floor);
  };
  auto [even, evenWhole] = floorsWith(1);
  auto [uneven, unevenWhole] = floorsWith(4);
  double expected = floorOfGpt2(small, 8 * 8, 4) / 2;
  EXPECT_NEAR(uneven, expected, 1e-9 * expected) << "the mean over ranks, on the fast device";
  EXPECT_GT(even, expected) << "the rank with the head";
  EXPECT_GT(unevenWhole, 1.5 * evenWhole) << "data-parallel ranks do the same, so the slow device counts";
}

} // namespace
} // namespace dtc::test
