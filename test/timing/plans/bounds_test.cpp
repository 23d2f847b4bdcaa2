#include "test/timing/plans/models.h"

#include "timing/cost/cost.h"
#include "timing/plans/dimensions.h"

#include <algorithm>
#include <random>

namespace dtc::plans {
namespace {

using abi::Collective;

constexpr double Layers = 16, Hidden = 64, Tokens = 512;
constexpr double Matrices = 12 * Hidden * Hidden, Head = 1000 * Hidden;
constexpr double OfLayer = Matrices + 13 * Hidden;
constexpr double Parameters = Layers * OfLayer + Head + 32 * Hidden + 2 * Hidden;
/// What every token meets: layers, the last norm, and the tied head.
constexpr double Met = Layers * OfLayer + 2 * Hidden + Head;

void expectNear(double value, double expected) { EXPECT_NEAR(value, expected, 1e-9 * expected); }

// Bytes

struct StateCase {
  std::vector<MeshAxis> mesh;
  const char *state;
  int64_t microBatches;
  double perParameter; ///< parameters + slots + gradients
};

// docs/placement.md's table, in 32 bits with two slots.
TEST(StateBytes, AreThoseOfTheTable) {
  Problem problem = problemOn(roundGpus(1, 8), 8);
  const std::vector<StateCase> cases = {
      {{{"dp", 8}}, "ddp", 1, 4 + 8 + 4},
      {{{"dp", 8}}, "zero1", 1, 4 + 1 + 0.5},
      {{{"dp", 8}}, "zero1", 2, 4 + 1 + 0.5 + 4}, // whole gradients are added up
      {{{"dp", 8}}, "zero2", 2, 4 + 1 + 0.5},
      {{{"dp", 8}}, "zero3", 2, 0.5 + 1 + 0.5},
      {{{"dp", 8}}, "hsdp:2", 1, 2 + 4 + 2},
      {{{"dp", 4}, {"cp", 2}}, "zero3", 1, 0.5 + 1 + 0.5},
      {{{"dp", 4}, {"cp", 2}}, "hsdp:2", 1, 1 + 2 + 1},
      {{{"dp", 2}, {"tp", 4}}, "ddp", 1, (4 + 8 + 4) / 4.0},
      {{{"pp", 4}, {"dp", 2}}, "zero1", 4, (4 + 4 + 2 + 4) / 4.0},
  };
  for (const StateCase &each : cases) {
    SCOPED_TRACE(std::string(each.state) + " " + std::to_string(each.microBatches));
    Candidate candidate = candidateOf(each.mesh, each.state, each.microBatches);
    expectNear(boundOf("parameters and their state", problem, candidate), each.perParameter * Parameters);
  }
}

TEST(StateBytes, GradientsThatAreNotAddedUpAreAsWideAsTheyTravel) {
  Problem problem = problemOn(roundGpus(1, 8), 8);
  problem.model.gradients = abi::BF16;
  expectNear(boundOf("parameters and their state", problem, candidateOf({{"dp", 8}}, "ddp", 1)), 14 * Parameters);
  expectNear(boundOf("parameters and their state", problem, candidateOf({{"dp", 8}}, "ddp", 2)), 16 * Parameters);
}

TEST(StateBytes, PipeDreamsGradientsAreGoneAfterEachUpdate) {
  Problem problem = problemOn(roundGpus(1, 8), 8);
  Candidate candidate = candidateOf({{"pp", 8}});
  candidate.timetable = "pipedream";
  expectNear(boundOf("parameters and their state", problem, candidate), 12 * Parameters / 8);
}

// Inputs of 15 layers: that of the first follows from the tokens.
TEST(ActivationBytes, AreInputsOfLayersInTheTypeOfProducts) {
  Problem problem = problemOn(roundGpus(1, 8), 8);
  auto bytes = [&](const Candidate &candidate) { return boundOf("activations in flight", problem, candidate); };
  expectNear(bytes(candidateOf({{"dp", 8}})), 15 * Tokens / 8 * Hidden * 2);
  expectNear(bytes(candidateOf({{"dp", 4}, {"cp", 2}})), 15 * Tokens / 8 * Hidden * 2);
  expectNear(bytes(candidateOf({{"dp", 8}}, "ddp", 2)), 15 * Tokens / 16 * Hidden * 2);
  Candidate tensor = candidateOf({{"dp", 2}, {"tp", 4}});
  expectNear(bytes(tensor), 15 * Tokens / 2 * Hidden * 2);
  tensor.splitsSequence = true;
  expectNear(bytes(tensor), 15 * Tokens / 8 * Hidden * 2);
  tensor.recompute = "every:4";
  expectNear(bytes(tensor), 15 * Tokens / 32 * Hidden * 2);
  tensor.recompute = "offload";
  EXPECT_EQ(bytes(tensor), 0);
}

// Stages of 1f1b hold 4, 3, 2 and 1 micro-batches, so twelve layers and the four first ones are spread best by their
// inverses, which add up to 25/12; gpipe's hold all eight.
TEST(ActivationBytes, OfAPipelineAreThoseOfTheBestCut) {
  Problem problem = problemOn(roundGpus(1, 4), 4);
  double kept = Tokens / 8 * Hidden * 2;
  Candidate candidate = candidateOf({{"pp", 4}}, "ddp", 8);
  expectNear(boundOf("activations in flight", problem, candidate), 12 / (25.0 / 12) * kept);
  double state = 16 * OfLayer, inverse = 0;
  for (double held : {4, 3, 2, 1})
    inverse += 1 / (state + held * kept);
  expectNear(boundOf("state and activations", problem, candidate), 12 / inverse);
  candidate.timetable = "gpipe";
  expectNear(boundOf("activations in flight", problem, candidate), 12 / 4 * 8 * kept);
}

TEST(AllBytes, AreStateAndActivationsWithoutAPipeline) {
  Problem problem = problemOn(roundGpus(1, 8), 8);
  expectNear(boundOf("state and activations", problem, candidateOf({{"dp", 8}})),
             16 * Parameters + 15 * Tokens / 8 * Hidden * 2);
}

// Room

TEST(Room, OfAPipelineIsThatOfTheLargestDevice) {
  std::string text = roundGpus(1, 4) + R"(
devices { name: "H" peaks { type: "f32" flops: 1e12 } memory_bytes: 3000000000 memory_bandwidth: 1e12 }
nodes { count: 1 device: "H" devices: 4 }
levels { name: "outer" units: 2 latency: 10e-6 bandwidth: 10e9 }
)";
  Problem problem = problemOn(text, 8);
  problem.margin = 0.1;
  BoundContext context(problem);
  EXPECT_DOUBLE_EQ(context.roomFor(candidateOf({{"dp", 8}})), 0.9e9);
  EXPECT_DOUBLE_EQ(context.roomFor(candidateOf({{"pp", 8}})), 2.7e9);
  problem.memoryLimit = 2000000000;
  EXPECT_DOUBLE_EQ(BoundContext(problem).roomFor(candidateOf({{"pp", 8}})), 2e9);
}

// A rank of a pipeline may take what the others of its node leave.
TEST(Room, OfProcessorsIsTheNodes) {
  std::string text = R"(
name: "hosts"
devices { name: "P" threads: 1 peaks { type: "f32" flops: 1e11 } memory_bandwidth: 1e10 }
nodes { count: 1 device: "P" cores: 4 memory_bytes: 16000000000 }
levels { name: "shared memory" latency: 1e-6 bandwidth: 10e9 transport: SHARED_MEMORY }
)";
  Problem problem = problemOn(text, 4);
  BoundContext context(problem);
  EXPECT_DOUBLE_EQ(context.roomFor(candidateOf({{"dp", 4}})), 4e9);
  EXPECT_DOUBLE_EQ(context.roomFor(candidateOf({{"pp", 4}})), 16e9);
}

// Compute

/// Model flops less what rotary embedding could be of them.
double products() { return smallModel().flops() * Hidden / (Hidden + 1.5); }
/// Of these, what is not the product of a parameter and a token.
double attention() { return products() - 6 * Met * Tokens; }
/// bf16's 4 TFLOP/s, half of them, on each device.
constexpr double Rate = 2e12;
/// Parameters and two slots both ways, and gradients, at 1 TB/s: classes without an efficiency reach all of it.
constexpr double Update = 28 * Parameters / 1e12;

TEST(Compute, IsProductsAtTheBestRateAndTheUpdate) {
  Problem problem = problemOn(roundGpus(1, 8), 8);
  ASSERT_GT(attention(), 0);
  double executed = products() + attention() / 6; // backward, attention does 10 for 8
  expectNear(boundOf("compute", problem, candidateOf({{"dp", 8}})), executed / (8 * Rate) + Update);
  expectNear(boundOf("compute", problem, candidateOf({{"dp", 8}}, "zero2")), executed / (8 * Rate) + Update / 8);
  expectNear(boundOf("compute", problem, candidateOf({{"tp", 8}})), executed / (8 * Rate) + Update / 8);
  expectNear(boundOf("compute", problem, candidateOf({{"pp", 8}}, "ddp", 8)), executed / (8 * Rate) + Update / 8);
}

// Half of the forward products of layers, a sixth of all, and attention forward.
TEST(Compute, CountsWhatIsRecomputed) {
  Problem problem = problemOn(roundGpus(1, 8), 8);
  Candidate candidate = candidateOf({{"dp", 8}});
  double before = boundOf("compute", problem, candidate);
  for (const char *same : {"none", "regather", "selective"}) {
    candidate.recompute = same;
    expectNear(boundOf("compute", problem, candidate), before);
  }
  candidate.recompute = "full";
  double again = Layers * OfLayer * (1 - 4 / Hidden) * Tokens + attention() / 3;
  expectNear(boundOf("compute", problem, candidate), before + again / (8 * Rate));
}

TEST(Compute, WaitsForTheSlowestDevice) {
  std::string text = roundGpus(1, 4) + R"(
devices { name: "H" peaks { type: "f32" flops: 3e12 } memory_bytes: 3000000000 memory_bandwidth: 1e12 }
nodes { count: 1 device: "H" devices: 4 }
levels { name: "outer" units: 2 latency: 10e-6 bandwidth: 10e9 }
)";
  Problem problem = problemOn(text, 8);
  double executed = products() + attention() / 6;
  expectNear(boundOf("compute", problem, candidateOf({{"dp", 8}})), executed / (8 * 2e12) + Update);
  // Each stage on devices of one kind: the fast ones can have more layers. The update is where it counts least.
  expectNear(boundOf("compute", problem, candidateOf({{"pp", 2}, {"dp", 4}}, "ddp", 2)),
             executed / (4 * 2e12 + 4 * 3e12) + 8.0 / 20 * Update);
  // Each stage on devices of both.
  expectNear(boundOf("compute", problem, candidateOf({{"dp", 4}, {"pp", 2}}, "ddp", 2)),
             executed / (8 * 2e12) + Update / 2);
}

// Four ranks on two cores take turns, and a step has two milliseconds of its own.
TEST(Compute, KnowsSharedCoresAndTheHost) {
  std::string text = R"(
name: "hosts"
devices { name: "P" threads: 1 peaks { type: "f32" flops: 1e11 } memory_bandwidth: 1e10 step_seconds: 2e-3 }
nodes { count: 1 device: "P" cores: 2 memory_bytes: 16000000000 }
levels { name: "shared memory" latency: 1e-6 bandwidth: 10e9 transport: SHARED_MEMORY }
)";
  Problem problem = problemOn(text, 4);
  double executed = products() + attention() / 6;
  expectNear(boundOf("compute", problem, candidateOf({{"dp", 4}})),
             2e-3 + executed / (4 * 1e11 / 2) + 28 * Parameters / (1e10 / 2));
}

// In shared memory a processor moves instead of computing: 2 (p-1)/p of the gradients, of which rounds of sizes lose up
// to a sixteenth of an octave.
TEST(Compute, AddsWhatProcessorsMove) {
  std::string text = R"(
name: "hosts"
devices { name: "P" threads: 1 peaks { type: "f32" flops: 1e11 } memory_bandwidth: 1e10 }
nodes { count: 1 device: "P" cores: 4 memory_bytes: 16000000000 }
levels { name: "shared memory" latency: 1e-6 bandwidth: 10e9 transport: SHARED_MEMORY }
)";
  Candidate candidate = candidateOf({{"dp", 4}});
  double alone = boundOf("compute", problemOn(text, 4), candidate);
  text.insert(text.rfind(" }"), " processor_share: 0.5");
  double both = boundOf("compute", problemOn(text, 4), candidate), moving = 0.5 * 1.5 * Met * 4 / 10e9;
  EXPECT_LE(both, (alone + moving) * (1 + 1e-6)); // and latencies, a millionth at 16 TiB
  EXPECT_GE(both, alone + 0.95 * moving);
}

TEST(Compute, OfInputsThatAreNoEmbeddingIsTwoProductsOfThree) {
  Problem problem = problemOn(roundGpus(1, 8), 8);
  problem.model.vocabulary = 0;
  expectNear(boundOf("compute", problem, candidateOf({{"dp", 8}})), products() * 2 / 3 / (8 * Rate) + Update);
}

// The backward pass of a stage of two layers.
TEST(Compute, OfPipeDreamIsTheLeastThatOneMoreStepAdds) {
  Problem problem = problemOn(roundGpus(1, 8), 8);
  Candidate candidate = candidateOf({{"pp", 8}});
  candidate.timetable = "pipedream";
  double layer = 6 * OfLayer * (1 - 4 / Hidden) * Tokens;
  expectNear(boundOf("compute", problem, candidate), 2 * layer * 2 / 3 / Rate);
  for (const Bound &bound : bounds())
    if (bound.of == Bound::Of::Seconds && bound.name != "compute") {
      EXPECT_EQ(bound.value(BoundInputs(BoundContext(problem), candidate)), 0) << bound.name;
    }
}

// Exchange: on one level of eight ranks, 3 rounds and 7/8 of the bytes, twice for an all-reduce (halving-doubling).

constexpr double Alpha = 1e-6, Beta = 1 / 100e9;

TEST(Gradients, AreReducedOnceOrInEachMicroBatch) {
  Problem problem = problemOn(roundGpus(1, 8), 8);
  auto seconds = [&](const Candidate &candidate) { return boundOf("gradients over the links", problem, candidate); };
  double half = 3 * Alpha + 7.0 / 8 * 4 * Met * Beta;
  expectNear(seconds(candidateOf({{"dp", 8}}, "ddp", 2)), 2 * half);
  expectNear(seconds(candidateOf({{"dp", 8}}, "zero1", 2)), half);
  expectNear(seconds(candidateOf({{"dp", 8}}, "zero2", 2)), 2 * half);
  expectNear(seconds(candidateOf({{"dp", 8}}, "zero3", 2)), 2 * half);
  expectNear(seconds(candidateOf({{"dp", 4}, {"cp", 2}}, "zero1")), half);
  EXPECT_EQ(seconds(candidateOf({{"tp", 8}})), 0);
  problem.model.gradients = abi::BF16;
  expectNear(seconds(candidateOf({{"dp", 8}})), 2 * (3 * Alpha + 7.0 / 8 * 2 * Met * Beta));
}

TEST(Gradients, OfAnUntiedHeadAreItsOwn) {
  Problem problem = problemOn(roundGpus(1, 8), 8);
  problem.model.lastParameters += Head;
  expectNear(boundOf("gradients over the links", problem, candidateOf({{"dp", 8}}, "zero1")),
             3 * Alpha + 7.0 / 8 * 4 * Met * Beta); // the embedding's rows may travel in its place
}

// Pairs of neighbours scatter, four pairs add up halves.
TEST(Gradients, OfHybridsAreReducedAmongCopiesToo) {
  Problem problem = problemOn(roundGpus(4, 2), 8);
  double within = 2 * (1 * Alpha + 1.0 / 2 * 4 * Met * Beta);
  double between = 4 * 10e-6 + 2 * 3.0 / 4 * 2 * Met / 10e9;
  expectNear(boundOf("gradients over the links", problem, candidateOf({{"dp", 8}}, "hsdp:2", 2)),
             std::max(within, between));
}

TEST(Gathers, FollowUpdatesOrEachMicroBatch) {
  Problem problem = problemOn(roundGpus(1, 8), 8);
  auto seconds = [&](const Candidate &candidate) { return boundOf("parameters over the links", problem, candidate); };
  double half = 3 * Alpha + 7.0 / 8 * 4 * Met * Beta, updated = 3 * Alpha + 7.0 / 8 * 4 * Parameters * Beta;
  double narrow = 3 * Alpha + 7.0 / 8 * 2 * Met * Beta;
  EXPECT_EQ(seconds(candidateOf({{"dp", 8}})), 0);
  expectNear(seconds(candidateOf({{"dp", 8}}, "zero1", 2)), updated + half);
  expectNear(seconds(candidateOf({{"dp", 8}}, "zero2", 2)), updated + 2 * half);
  expectNear(seconds(candidateOf({{"dp", 8}}, "zero3", 2)), 2 * narrow + 2 * half);
  expectNear(seconds(candidateOf({{"dp", 4}, {"cp", 2}}, "zero3")), narrow);
}

// Two sums for each layer at least: GPT-NeoX adds attention and feed-forward block before. They are so small that
// recursive doubling is the fastest: 3 rounds of all bytes.
TEST(TensorParallelism, SumsInEachLayerAndMicroBatch) {
  Problem problem = problemOn(roundGpus(1, 8), 8);
  auto seconds = [&](const Candidate &candidate) {
    return boundOf("activations over the tensor-parallel links", problem, candidate);
  };
  double bytes = Tokens / 4 * Hidden * 2;
  Candidate candidate = candidateOf({{"tp", 8}}, "ddp", 4);
  expectNear(seconds(candidate), 16 * 4 * 2 * 3 * (Alpha + bytes * Beta));
  candidate.splitsSequence = true; // a gather and a scatter
  expectNear(seconds(candidate), 16 * 4 * 2 * 2 * (3 * Alpha + 7.0 / 8 * bytes * Beta));
  candidate = candidateOf({{"pp", 4}, {"tp", 2}}, "ddp", 4);
  expectNear(seconds(candidate), 4 * 4 * 2 * (Alpha + bytes * Beta));
  problem.model.layers = 17;
  expectNear(seconds(candidate), 5 * 4 * 2 * (Alpha + bytes * Beta));
  EXPECT_EQ(seconds(candidateOf({{"dp", 8}})), 0);
}

// With axis_order tp is within nodes wherever the mesh has it.
TEST(Lanes, FollowTheOrderOfTheCluster) {
  Problem problem = problemOn(roundGpus(2, 4), 8);
  Candidate candidate = candidateOf({{"tp", 2}, {"pp", 2}, {"dp", 2}});
  EXPECT_EQ(BoundContext(problem).laneOf(candidate, "tp"), (Lane{4, 2}));
  EXPECT_EQ(BoundContext(problem).laneOf(candidate, "dp"), (Lane{1, 2}));
  Problem ordered = problemOn(roundGpus(2, 4, "axis_order: \"tp\""), 8);
  EXPECT_EQ(BoundContext(ordered).laneOf(candidate, "tp"), (Lane{1, 2}));
  EXPECT_EQ(BoundContext(ordered).laneOf(candidate, "dp"), (Lane{2, 2}));
  EXPECT_EQ(BoundContext(ordered).laneOf(candidate, "pp"), (Lane{4, 2}));
  EXPECT_EQ(BoundContext(ordered).laneOf(candidate, "cp"), (Lane{1, 1}));
}

// Pieces

std::string levelWith(const std::string &rest) {
  return R"(
name: "measured"
devices { name: "P" threads: 1 peaks { type: "f32" flops: 1e11 } memory_bandwidth: 1e10 }
nodes { count: 4 device: "P" cores: 2 memory_bytes: 16000000000 }
levels { name: "shared memory" latency: 1e-6 bandwidth: 10e9 transport: SHARED_MEMORY }
levels { name: "Ethernet" latency: 30e-6 bandwidth: 1e9 shared_by: 2 )" +
         rest + "}\n";
}

/// Rises more than the bytes do, then less: caches that are too small, and pipelining.
std::string measuredPoints(std::mt19937 &random) {
  std::string text;
  double seconds = 20e-6;
  for (double bytes = 4096; bytes < 1e9; bytes *= 16) {
    text += fmt::format("measured {{ collective: \"all_reduce\" ranks: 8 bytes: {} seconds: {} "
                        "processor_seconds: {} }} ",
                        bytes, seconds, seconds / std::uniform_real_distribution<double>(1, 4)(random));
    seconds *= std::uniform_real_distribution<double>(2, 40)(random);
  }
  return text;
}

// However bytes are cut into pieces, these take no less, on links with and without measurements.
TEST(Pieces, TakeNoLessThanTheBound) {
  std::mt19937 random(1);
  for (int round = 0; round < 60; ++round) {
    std::string rest = round % 3 == 0 ? "" : "transport: TCP ";
    if (round % 3 == 2)
      rest += measuredPoints(random);
    Problem problem = problemOn(levelWith(rest), 8);
    BoundContext context(problem);
    abi::Mesh mesh;
    mesh.add_axes()->set_name("dp");
    mesh.mutable_axes(0)->set_size(8);
    timing::Layout layout(problem.cluster, mesh);
    std::vector<int64_t> members = {0, 1, 2, 3, 4, 5, 6, 7};
    timing::Span span = layout.spanOf(members);
    double bytes = 0, seconds = 0, processor = 0;
    for (int piece = std::uniform_int_distribution<int>(1, 30)(random); piece > 0; --piece) {
      double part = std::exp2(std::uniform_real_distribution<double>(8, 30)(random));
      auto cost = timing::collectiveCost(layout.cluster(), Collective::ALL_REDUCE, part, span, abi::F32);
      bytes += part;
      seconds += cost.seconds;
      processor += cost.processorSeconds;
    }
    LeastExchange least = context.exchange({{1, 8}}, Collective::ALL_REDUCE, bytes, abi::F32);
    EXPECT_LE(least.seconds, seconds * (1 + 1e-9)) << round;
    EXPECT_LE(least.processor, processor * (1 + 1e-9)) << round;
    EXPECT_GT(least.seconds, 0);
  }
}

// Sixteen pieces of 1 MiB in 100 us each, and all at once in 10 ms: the pieces count.
TEST(Pieces, MayTakeLessThanTheWhole) {
  std::string points = "measured { collective: \"all_reduce\" ranks: 8 bytes: 1048576 seconds: 100e-6 } "
                       "measured { collective: \"all_reduce\" ranks: 8 bytes: 16777216 seconds: 10e-3 } ";
  Problem problem = problemOn(levelWith(points), 8);
  double seconds = BoundContext(problem).exchange({{1, 8}}, Collective::ALL_REDUCE, 16777216, abi::F32).seconds;
  EXPECT_LE(seconds, 1.6e-3);
  EXPECT_GE(seconds, 1.6e-3 * std::exp2(-1.0 / 8));
}

TEST(Least, IsTheLargestOfEachKind) {
  Problem problem = problemOn(roundGpus(1, 8), 8);
  BoundContext context(problem);
  Candidate candidate = candidateOf({{"dp", 8}});
  Least least = leastOf(context, candidate);
  ASSERT_NE(least.ofBytes, nullptr);
  ASSERT_NE(least.ofSeconds, nullptr);
  EXPECT_EQ(least.ofBytes->name, "state and activations");
  for (const Bound &bound : bounds())
    EXPECT_LE(bound.value(BoundInputs(context, candidate)) * (1 - 1e-8),
              bound.of == Bound::Of::Bytes ? least.bytes : least.seconds);
}

// Whatever differs from the candidate before, in the order of the search and in any other.
TEST(BoundInputs, OfNeighboursAreThoseOfEachAlone) {
  Problem problem = problemOn(roundGpus(2, 4), 8);
  problem.allowsAsynchronous = true;
  BoundContext context(problem);
  std::vector<Candidate> all;
  forEachCandidate(problem, {}, [&](const Candidate &candidate) { all.push_back(candidate); });
  for (size_t i = 0; i < all.size(); i += 7)
    all[i].recompute = i % 2 == 0 ? "offload" : "every:2";
  for (int round = 0; round < 2; ++round) {
    BoundInputs inputs(context);
    for (const Candidate &candidate : all) {
      inputs.set(candidate);
      BoundInputs alone(context, candidate);
      for (const Bound &bound : bounds())
        ASSERT_EQ(bound.value(inputs), bound.value(alone)) << bound.name << " of " << candidate.text();
    }
    std::shuffle(all.begin(), all.end(), std::mt19937(1));
  }
}

TEST(FloorShare, LeavesRoomForWhatIsFused) {
  Problem problem = problemOn(roundGpus(1, 8), 8);
  EXPECT_DOUBLE_EQ(floorShare(problem, candidateOf({{"dp", 8}})), 64.0 / 80);
  EXPECT_DOUBLE_EQ(floorShare(problem, candidateOf({{"dp", 2}, {"tp", 4}})), 16.0 / 32);
  problem.model.hidden = 0;
  EXPECT_EQ(floorShare(problem, candidateOf({{"dp", 8}})), 0);
}

} // namespace
} // namespace dtc::plans
