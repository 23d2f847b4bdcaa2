#include "timing/events/bound.h"
#include "timing/events/simulate.h"

#include "test/timing/events/steps.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <tuple>

namespace dtc::timing {
namespace {

Simulated run(const Step &step, const Cluster &cluster, const Conditions &conditions = {}) {
  return simulate(step, Layout(cluster, step.mesh), conditions);
}

TEST(Simulate, KernelsComeOneAfterTheOther) {
  StepBuilder builder({{"dp", 1}});
  builder.list(0).compute(2).compute(3);
  Simulated simulated = run(builder.step, unitCluster(1));
  EXPECT_EQ(simulated.seconds, 5);
  EXPECT_EQ(simulated.classes[0].compute, 5);
  EXPECT_EQ(simulated.actions, 2);
}

// Started commands run in parallel with compute; what is left of one at the wait is exposed.
TEST(Simulate, WhatIsStartedIsHiddenBehindCompute) {
  StepBuilder builder({{"dp", 2}});
  uint32_t group = builder.addGroup("dp", 0);
  builder.list(0).compute(1).start(group, 8, 0).compute(3).wait(0).compute(1);
  Simulated simulated = run(builder.step, unitCluster(2));
  EXPECT_EQ(simulated.seconds, 6) << "1, then 4 seconds of moving during 3 of compute, then 1";
  EXPECT_EQ(simulated.classes.size(), 1u);
  EXPECT_EQ(simulated.classes[0].moving(), 1);
  EXPECT_EQ(simulated.classes[0].late(), 0);
  EXPECT_EQ(simulated.classes[0].moved[0], 4) << "a rank sends its half";
  ASSERT_EQ(simulated.classes[0].exposed.size(), 1u);
  EXPECT_EQ(simulated.classes[0].exposed[0].command, 1u) << "the start, in the program";
}

TEST(Simulate, CommandsOfOneChannelQueue) {
  for (uint32_t second : {0, 1}) {
    StepBuilder builder({{"dp", 2}});
    uint32_t one = builder.addGroup("dp", 0), other = builder.addGroup("dp", second);
    builder.list(0).start(one, 8, 0).start(other, 2, 1).wait(1).compute(10).wait(0);
    Simulated simulated = run(builder.step, unitCluster(2));
    // On one channel the second begins after 4 seconds and takes 1. On two they share the link: it takes 2.
    EXPECT_EQ(simulated.classes[0].exposed[0].moving, second == 0 ? 5 : 2);
    EXPECT_EQ(simulated.classes[0].late(), 0) << "both ranks come at once";
    EXPECT_EQ(simulated.seconds, second == 0 ? 15 : 12);
  }
}

// Latency takes none of a link's bandwidth.
TEST(Simulate, WhatSharesALinkSharesItsBandwidth) {
  StepBuilder builder({{"dp", 2}});
  uint32_t one = builder.addGroup("dp", 0), other = builder.addGroup("dp", 1);
  builder.list(0).start(one, 8, 0).start(other, 8, 1).wait(0).wait(1);
  EXPECT_EQ(run(builder.step, unitCluster(2)).seconds, 8) << "4 seconds each, side by side";
  EXPECT_EQ(run(builder.step, unitCluster(2, /*latency=*/4)).seconds, 8) << "of 8 seconds each half is bandwidth";
}

// Each direction of a link has its bandwidth.
TEST(Simulate, MessagesBothWaysDoNotShare) {
  for (bool isSameWay : {false, true}) {
    StepBuilder builder({{"pp", 2}});
    uint32_t one = builder.addGroup("pp", 0), other = builder.addGroup("pp", 1);
    builder.step.roleOf[1] = 1;
    builder.list(0).send(one, 1, 8, 0);
    (isSameWay ? builder.send(other, 1, 8, 1) : builder.receive(other, 1, 8, 1)).wait(0).wait(1);
    builder.list(1).receive(one, -1, 8, 0);
    (isSameWay ? builder.receive(other, -1, 8, 1) : builder.send(other, -1, 8, 1)).wait(0).wait(1);
    Simulated simulated = run(builder.step, unitCluster(2));
    EXPECT_EQ(simulated.seconds, isSameWay ? 16 : 8);
    EXPECT_EQ(simulated.classes[0].needed, (std::vector<double>{isSameWay ? 16.0 : 8.0, isSameWay ? 0.0 : 8.0}));
  }
}

TEST(Simulate, WhatBeginsOnFullLinksQueues) {
  Cluster cluster = unitCluster(2, /*latency=*/1);
  cluster.mutable_levels(0)->set_loaded_latency(4);
  for (bool isLoaded : {false, true}) {
    StepBuilder builder({{"dp", 2}});
    uint32_t one = builder.addGroup("dp", 0), other = builder.addGroup("dp", 1);
    builder.list(0);
    if (isLoaded)
      builder.start(one, 8, 0);
    builder.start(other, 0, 1).wait(1);
    if (isLoaded)
      builder.wait(0);
    // The first takes 5 seconds, of which 4 fill the link: so much of 3 seconds more.
    EXPECT_DOUBLE_EQ(run(builder.step, cluster).classes[0].exposed[0].moving, isLoaded ? 1 + 0.8 * 3 : 1);
  }
}

// Where a processor moves data, kernels stop: what overlap saves on a link is lost on the processor.
TEST(Simulate, ATransportThatComputesSlowsComputeDown) {
  StepBuilder builder({{"dp", 2}});
  uint32_t group = builder.addGroup("dp", 0);
  builder.list(0).start(group, 4, 0).compute(5).wait(0);
  Simulated all = run(builder.step, unitCluster(2, 0, 1)), half = run(builder.step, unitCluster(2, 0, 0.5));
  EXPECT_EQ(all.seconds, 7);
  EXPECT_EQ(all.classes[0].stolen, 2);
  EXPECT_EQ(all.classes[0].compute, 5);
  EXPECT_EQ(half.seconds, 6);
  EXPECT_EQ(half.classes[0].stolen, 1);
}

// A kernel at half speed does half the work: two on one link cost no more than one after the other.
TEST(Simulate, ATransportThatSharesALinkComputesLessAtATime) {
  StepBuilder builder({{"dp", 2}});
  uint32_t group = builder.addGroup("dp", 0), other = builder.addGroup("dp", 1);
  builder.list(0).start(group, 4, 0).start(other, 8, 1).compute(10).wait(0).wait(1);
  Simulated both = run(builder.step, unitCluster(2, 0, 0.5));
  EXPECT_EQ(both.classes[0].stolen, 3);
  EXPECT_EQ(both.seconds, 13);
}

/// Launches, as they are told.
class Launches : public Watcher {
public:
  void executed(const Executed &executed) override {
    if (!executed.isStart && executed.command != 1)
      times.emplace_back(executed.begin, executed.end);
  }
  std::vector<std::pair<double, double>> times;
};

// Of 5 seconds of kernels the first 4 run at half speed. An observer changes nothing, to the last bit.
TEST(Simulate, LaunchesAreToldWithWhatSlowedThemDown) {
  StepBuilder builder({{"dp", 2}});
  uint32_t group = builder.addGroup("dp", 0);
  builder.list(0).compute(1).start(group, 8, 0).compute(1).compute(1.1).compute(2.9).wait(0);
  Cluster cluster = unitCluster(2, 0, 0.5);
  Launches launches;
  Simulated told = simulate(builder.step, Layout(cluster, builder.step.mesh), {}, &launches);
  EXPECT_EQ(told.seconds, run(builder.step, cluster).seconds);
  std::vector<std::pair<double, double>> expected = {{0, 1}, {1, 3}, {3, 5.1}, {5.1, 8}};
  ASSERT_EQ(launches.times.size(), 5u) << "and the wait";
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(launches.times[i].first, expected[i].first, 1e-12);
    EXPECT_NEAR(launches.times[i].second, expected[i].second, 1e-12);
  }
}

TEST(Simulate, ASlowRankMakesOthersWait) {
  StepBuilder builder({{"dp", 2}, {"tp", 2}});
  uint32_t group = builder.addGroup("dp", 0);
  builder.list(0).compute(4).start(group, 2, 0).wait(0);
  Conditions conditions;
  conditions.slowness[2] = 1.5;
  Step &step = builder.step;
  Layout layout(unitCluster(4), step.mesh);
  EqualRanks classes(step, layout, conditions.slowness);
  EXPECT_EQ(classes.count(), 3) << "the slow rank, whom it meets, and the others";
  EXPECT_EQ(classes.classOf()[1], classes.classOf()[3]);
  Simulated simulated = simulate(step, layout, conditions);
  EXPECT_EQ(simulated.seconds, 7);
  EXPECT_EQ(simulated.classes[static_cast<size_t>(classes.classOf()[0])].late(), 2) << "rank 0 waits for rank 2";
  EXPECT_EQ(simulated.classes[static_cast<size_t>(classes.classOf()[1])].end, 5) << "no one waits for rank 3";
}

// They take no compute and no memory bandwidth; those of one channel queue, those of two overtake each other.
TEST(Simulate, CopiesToTheHostRunBesideKernelsAtTheRateOfItsLink) {
  Cluster cluster = unitCluster(1);
  cluster.mutable_devices(0)->set_host_bandwidth(2);
  for (uint32_t second : {0, 1}) {
    StepBuilder builder({{"dp", 1}});
    builder.list(0).hostCopy(8, 0, 0).hostCopy(8, 1, second).compute(3).wait(0).compute(1).wait(1);
    Simulated simulated = run(builder.step, cluster);
    EXPECT_EQ(simulated.classes[0].compute, 4);
    EXPECT_EQ(simulated.classes[0].stolen, 0);
    EXPECT_EQ(simulated.seconds, second == 0 ? 8 : 5);
  }
}

// On a processor they are ordinary copies, by its own threads.
TEST(Simulate, OfAProcessorTheHostsMemoryIsItsOwn) {
  Cluster cluster = unitCluster(1);
  cluster.mutable_devices(0)->set_threads(1);
  StepBuilder builder({{"dp", 1}});
  builder.list(0).hostCopy(2, 0, 0).compute(3).wait(0);
  EXPECT_EQ(run(builder.step, cluster).seconds, 7) << "four bytes are read and written while compute stands still";
}

TEST(Simulate, AHostHasWorkBeforeTheFirstCommand) {
  StepBuilder builder({{"dp", 1}});
  builder.list(0).compute(2);
  Cluster cluster = unitCluster(1);
  cluster.mutable_devices(0)->set_step_seconds(3);
  Simulated simulated = run(builder.step, cluster);
  EXPECT_EQ(simulated.seconds, 5);
  EXPECT_EQ(simulated.classes[0].compute, 2);
  EXPECT_EQ(simulated.classes[0].host, 3);
}

TEST(Simulate, MeasuredTimesReplaceModelledOnes) {
  StepBuilder builder({{"dp", 1}});
  builder.list(0).compute(2).compute(3);
  Conditions conditions;
  conditions.measured[{"list 0", 1}] = 0.5;
  EXPECT_EQ(run(builder.step, unitCluster(1), conditions).seconds, 2.5);
}

TEST(Simulate, RanksThatWaitForEachOtherForEverAreAnError) {
  StepBuilder builder({{"pp", 2}});
  builder.step.roleOf[1] = 1;
  uint32_t group = builder.addGroup("pp", 0);
  builder.list(0).receive(group, 1, 1, 0).wait(0);
  builder.list(1).receive(group, -1, 1, 0).wait(0);
  EXPECT_THROW(run(builder.step, unitCluster(2)), std::exception);
}

// Equal times: the formulas of Narayanan et al. (arXiv:2104.04473), exactly.
TEST(Simulate, BubblesAreThoseOfTheFormulas) {
  for (int64_t stages : {1, 2, 3, 4, 8, 16})
    for (int64_t microBatches : {1, 2, 4, 8, 32}) {
      auto p = static_cast<double>(stages), m = static_cast<double>(microBatches);
      for (auto [name, steps] :
           {std::pair("naive", p * m), std::pair("gpipe", p + m - 1), std::pair("1f1b", p + m - 1)}) {
        Step step = pipeline(name, stages, microBatches);
        Simulated simulated = run(step, unitCluster(stages));
        ASSERT_EQ(simulated.seconds, 2 * steps) << name << " p=" << p << " m=" << m;
        for (const ClassTimes &times : simulated.classes)
          ASSERT_EQ(times.compute, 2 * m) << name << " p=" << p << " m=" << m;
      }
    }
}

TEST(Simulate, AsManyClassesAsStagesWhateverTheNumberOfRanks) {
  StepBuilder builder({{"dp", 64}, {"pp", 4}, {"tp", 8}});
  uint32_t dp = builder.addGroup("dp", 0), tp = builder.addGroup("tp", 1);
  for (int rank = 0; rank < 64 * 4 * 8; ++rank)
    builder.step.roleOf[static_cast<size_t>(rank)] = rank / 8 % 4;
  for (size_t role = 0; role < 4; ++role)
    builder.list(role).compute(1).start(tp, 8, 0).wait(0).compute(1).start(dp, 64, 1).wait(1);
  Simulated simulated = run(builder.step, unitCluster(64 * 4 * 8));
  EXPECT_EQ(simulated.classes.size(), 4u);
}

/// Lists of random commands, the same for all ranks.
Step randomStep(std::mt19937 &random) {
  StepBuilder builder({{"dp", 2}, {"tp", 2}});
  std::vector<uint32_t> groups = {builder.addGroup("dp", 0), builder.addGroup("tp", 1), builder.addGroup("dp", 2)};
  auto upTo = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  builder.list(0);
  std::vector<uint32_t> open;
  uint32_t next = 0;
  for (int i = 0; i < 30; ++i) {
    if (upTo(8) == 0)
      builder.list(0);
    int choice = upTo(3);
    if (choice == 0)
      builder.compute(1 + upTo(8));
    else if (choice == 1)
      builder.start(groups[static_cast<size_t>(upTo(3))], 1 + upTo(20), open.emplace_back(next++));
    else if (!open.empty()) {
      auto which = open.begin() + upTo(static_cast<int>(open.size()));
      builder.wait(*which);
      open.erase(which);
    }
  }
  for (uint32_t token : open)
    builder.wait(token);
  return builder.step;
}

// A slower part never makes a step faster than its bound, and no step beats its bound.
TEST(Simulate, NoStepIsFasterThanItsLowerBound) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 300; ++trial) {
    Step step = randomStep(random);
    Layout layout(unitCluster(4, 0.5, trial % 3 * 0.5), step.mesh);
    Simulated simulated = simulate(step, layout);
    LowerBound bound = lowerBound(step, layout, {}, simulated);
    ASSERT_GT(bound.seconds, 0);
    ASSERT_LE(bound.seconds, simulated.seconds * (1 + 1e-9)) << trial;
    const ClassTimes &times = simulated.classes[0];
    ASSERT_NEAR(times.host + times.compute + times.stolen + times.moving() + times.late(), times.end, 1e-9) << trial;
  }
}

TEST(LowerBound, NamesItsReason) {
  StepBuilder busy({{"dp", 2}});
  uint32_t group = busy.addGroup("dp", 0);
  busy.list(0).start(group, 4, 0).compute(5).wait(0);
  Layout layout(unitCluster(2), busy.step.mesh);
  EXPECT_EQ(lowerBound(busy.step, layout, {}, simulate(busy.step, layout)).reason, LowerBound::Compute);

  // A processor that moves data for 2 seconds computes for 5 besides.
  Layout processors(unitCluster(2, 0, 1), busy.step.mesh);
  LowerBound ofBoth = lowerBound(busy.step, processors, {}, simulate(busy.step, processors));
  EXPECT_EQ(ofBoth.reason, LowerBound::Compute);
  EXPECT_EQ(ofBoth.seconds, 7);

  StepBuilder moving({{"dp", 2}});
  group = moving.addGroup("dp", 0);
  uint32_t other = moving.addGroup("dp", 1);
  moving.list(0).start(group, 40, 0).start(other, 40, 1).compute(5).wait(0).wait(1);
  LowerBound bound = lowerBound(moving.step, layout, {}, simulate(moving.step, layout));
  EXPECT_EQ(bound.reason, LowerBound::Link);
  EXPECT_EQ(bound.seconds, 40);

  StepBuilder chain({{"dp", 2}});
  group = chain.addGroup("dp", 0);
  chain.list(0).compute(5).start(group, 8, 0).wait(0).compute(1);
  bound = lowerBound(chain.step, layout, {}, simulate(chain.step, layout));
  EXPECT_EQ(bound.reason, LowerBound::CriticalPath);
  EXPECT_EQ(bound.seconds, 10);

  // Gradients come one after the other, and the last needs as long as those before it: none can wait for the next step.
  StepBuilder late({{"dp", 2}});
  group = late.addGroup("dp", 0);
  other = late.addGroup("dp", 1);
  late.list(0).compute(10).start(group, 16, 0).compute(4).start(other, 12, 1).wait(0).wait(1).compute(1);
  bound = lowerBound(late.step, layout, {}, simulate(late.step, layout));
  EXPECT_EQ(bound.reason, LowerBound::LinkInTime);
  EXPECT_EQ(bound.seconds, 10 + 8 + 6 + 1);
}

// What the update gathers cannot begin before all that it waits for has been reduced, which takes time on the link.
TEST(LowerBound, GoesFromEntryToEntry) {
  StepBuilder step({{"dp", 2}});
  uint32_t group = step.addGroup("dp", 0);
  step.list(0).compute(1).start(group, 8, 0).start(group, 8, 1).compute(2).wait(0).wait(1);
  step.list(0).compute(1).start(group, 8, 2).start(group, 8, 3).compute(1).wait(2).wait(3);
  Layout layout(unitCluster(2), step.step.mesh);
  Simulated simulated = simulate(step.step, layout);
  LowerBound bound = lowerBound(step.step, layout, {}, simulated);
  EXPECT_EQ(bound.reason, LowerBound::LinkInTime);
  EXPECT_EQ(bound.seconds, 1 + 8 + 1 + 8);
  EXPECT_EQ(bound.seconds, simulated.seconds);
}

TEST(LowerBound, AMachineThatLeavesTasksIsTheFastest) {
  EXPECT_EQ(preemptiveEnd({}), 0);
  EXPECT_EQ(preemptiveEnd({{2, 3, 4}}), 9);
  EXPECT_EQ(preemptiveEnd({{0, 4, 1}, {1, 1, 9}}), 11) << "the second goes first as soon as it is there";
  EXPECT_EQ(preemptiveEnd({{0, 4, 8}, {1, 1, 1}}), 12);
  EXPECT_EQ(preemptiveEnd({{5, 1, 0}, {0, 1, 0}}), 6) << "nothing is there in between";
}

} // namespace
} // namespace dtc::timing
