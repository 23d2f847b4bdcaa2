#include "timing/plans/prefer.h"

#include "test/timing/plans/models.h"

#include <algorithm>
#include <random>

namespace dtc::plans {
namespace {

/// Two nodes of four.
Problem twoNodes() { return problemOn(roundGpus(2, 4), 8); }

Evaluated plan(std::vector<MeshAxis> mesh, double seconds) {
  Evaluated evaluated;
  evaluated.candidate = candidateOf(std::move(mesh));
  evaluated.seconds = seconds;
  return evaluated;
}

/// What is simpler takes 2% longer; it is proposed all the same, and the reason is given.
void expectSimpler(Evaluated simple, Evaluated other, const std::string &reason) {
  SCOPED_TRACE(reason);
  Problem problem = twoNodes();
  simple.seconds = 1.02;
  other.seconds = 1;
  std::vector<Evaluated> both = {other, simple};
  EXPECT_EQ(ranked(problem, both), (std::vector<size_t>{1, 0}));
  EXPECT_EQ(whyBefore(problem, simple, other), reason + ", and its step is only 2.0% longer");
  both[1].seconds = 1.04; // beyond 3%
  EXPECT_EQ(ranked(problem, both), (std::vector<size_t>{0, 1}));
  EXPECT_EQ(whyBefore(problem, both[0], both[1]), "its step is 3.8% shorter"); // 0.04 of 1.04
}

TEST(Prefer, FewerKindsOfParallelism) {
  expectSimpler(plan({{"dp", 8}}, 1), plan({{"pp", 2}, {"dp", 4}}, 1), "it has no pipeline");
  expectSimpler(plan({{"tp", 8}}, 1), plan({{"cp", 4}, {"tp", 2}}, 1), "it has no context parallelism");
  expectSimpler(plan({{"dp", 8}}, 1), plan({{"pp", 2}, {"tp", 4}}, 1), "it has no pipeline and no tensor parallelism");
  expectSimpler(plan({{"tp", 8}}, 1), plan({{"pp", 2}, {"cp", 4}}, 1),
                "it has tensor parallelism instead of a pipeline and context parallelism");
}

TEST(Prefer, TensorParallelismWithinNodes) {
  expectSimpler(plan({{"dp", 2}, {"tp", 4}}, 1), plan({{"tp", 4}, {"dp", 2}}, 1),
                "its tensor parallelism stays within nodes");
  // Of equally many ideas, pairs four apart are on two nodes, and pairs of neighbours are not.
  expectSimpler(plan({{"dp", 4}, {"tp", 2}}, 1), plan({{"tp", 2}, {"dp", 4}}, 1),
                "its tensor parallelism stays within nodes");
}

TEST(Prefer, LessSplitState) {
  const char *states[] = {"ddp", "zero1", "zero2", "zero3", "hsdp:2"};
  for (int i = 0; i + 1 < 5; ++i) {
    Evaluated simple = plan({{"dp", 8}}, 1), other = simple;
    simple.candidate.state = states[i];
    other.candidate.state = states[i + 1];
    other.candidate.recompute = "none"; // which counts less
    expectSimpler(simple, other,
                  fmt::format("it splits less of the state ({} instead of {})", states[i], states[i + 1]));
  }
}

TEST(Prefer, LessRecomputation) {
  const char *ways[] = {"none", "cheap", "regather", "selective", "full", "every:2"};
  for (int i = 0; i + 1 < 6; ++i) {
    Evaluated simple = plan({{"dp", 8}}, 1), other = simple;
    simple.candidate.recompute = ways[i];
    simple.candidate.microBatches = 8; // which count less
    other.candidate.recompute = ways[i + 1];
    expectSimpler(simple, other, fmt::format("it recomputes less ({} instead of {})", ways[i], ways[i + 1]));
  }
}

TEST(Prefer, EarlierTimetables) {
  const char *names[] = {"1f1b", "naive", "gpipe", "interleaved", "zb-h1", "zb-h2", "zbv", "v-half", "pipedream"};
  for (int i = 0; i + 1 < 9; ++i) {
    Evaluated simple = plan({{"pp", 8}}, 1), other = simple;
    simple.candidate.timetable = names[i];
    simple.candidate.microBatches = 16;
    other.candidate.timetable = names[i + 1];
    expectSimpler(simple, other, fmt::format("its timetable is simpler ({} instead of {})", names[i], names[i + 1]));
  }
}

TEST(Prefer, WholeSequencesAndFewerMicroBatches) {
  Evaluated simple = plan({{"dp", 2}, {"tp", 4}}, 1), other = simple;
  simple.candidate.microBatches = 4;
  other.candidate.splitsSequence = true;
  expectSimpler(simple, other, "it does not split the sequence");
  other = simple;
  other.candidate.microBatches = 8;
  expectSimpler(simple, other, "it has fewer micro-batches (4 instead of 8)");
}

// What is compared last: of equally simple ones the shorter, of equally long ones the first.
TEST(Prefer, TheShorterOfEquals) {
  std::vector<Evaluated> all = {plan({{"dp", 8}}, 1.02), plan({{"dp", 8}}, 1.01), plan({{"dp", 8}}, 1.01)};
  EXPECT_EQ(ranked(twoNodes(), all), (std::vector<size_t>{1, 2, 0}));
  EXPECT_EQ(whyBefore(twoNodes(), all[1], all[0]), "its step is 1.0% shorter");
  EXPECT_EQ(whyBefore(twoNodes(), all[1], all[2]), "their steps are equally long, and it was found first");
}

// Only the first place goes to the simplest. What does not fit has none.
TEST(Prefer, OthersFollowByTheirSteps) {
  std::vector<Evaluated> all = {plan({{"pp", 2}, {"tp", 4}}, 1), plan({{"pp", 8}}, 1.01), plan({{"dp", 8}}, 1.029),
                                plan({{"dp", 8}}, 1.2), plan({{"dp", 8}}, 0.5)};
  all.back().lack = 3e9;
  EXPECT_EQ(ranked(twoNodes(), all), (std::vector<size_t>{2, 0, 1, 3}));
  EXPECT_EQ(ranked(twoNodes(), all, 0), (std::vector<size_t>{0, 1, 2, 3}));
  EXPECT_TRUE(ranked(twoNodes(), {}).empty());
}

TEST(WhyBefore, SaysWhatElseDecides) {
  Evaluated first = plan({{"dp", 8}}, 1), second = plan({{"pp", 8}}, 1.25);
  EXPECT_EQ(whyBefore(twoNodes(), first, second), "its step is 20% shorter");
  second.seconds = 1;
  EXPECT_EQ(whyBefore(twoNodes(), first, second), "it has no pipeline, and its step is equally long");
  second.seconds = 1.02;
  EXPECT_EQ(whyBefore(twoNodes(), first, second), "it has no pipeline, and its step is 2.0% shorter");
  EXPECT_EQ(whyBefore(twoNodes(), second, first), "its step is 2.0% longer"); // nothing is in its favour
  // A simpler plan is worth 3%, and no more.
  second.seconds = 0.9;
  EXPECT_EQ(whyBefore(twoNodes(), first, second), "its step is 11% longer");
  second.seconds = 1.02;
  second.lack = 12.5e9;
  EXPECT_EQ(whyBefore(twoNodes(), first, second), "the other does not fit: it lacks 12.5 GB");
  second.problem = "there are no stages";
  EXPECT_EQ(whyBefore(twoNodes(), first, second), "the other cannot be compiled: there are no stages");
}

// Whatever the order in which plans were found, the same one is proposed.
TEST(Prefer, DoesNotDependOnTheOrder) {
  std::mt19937 random(3);
  const std::vector<std::vector<MeshAxis>> meshes = {
      {{"dp", 8}}, {{"pp", 2}, {"dp", 4}}, {{"tp", 4}, {"dp", 2}}, {{"dp", 2}, {"tp", 4}}};
  for (int round = 0; round < 50; ++round) {
    std::vector<Evaluated> all;
    for (int i = 0; i < 12; ++i)
      all.push_back(plan(meshes[random() % meshes.size()], 1 + 0.01 * (random() % 7) + 1e-6 * i));
    Evaluated proposed = all[ranked(twoNodes(), all).front()];
    EXPECT_LE(proposed.seconds, 1.03 * std::ranges::min(all, {}, &Evaluated::seconds).seconds);
    std::shuffle(all.begin(), all.end(), random);
    EXPECT_EQ(all[ranked(twoNodes(), all).front()].seconds, proposed.seconds);
  }
}

} // namespace
} // namespace dtc::plans
