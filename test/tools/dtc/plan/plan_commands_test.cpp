// The commands that a plan prints.
#include "test/tools/dtc/plan/problems.h"
#include "tools/dtc/plan/PlanCommands.h"

#include <gtest/gtest.h>

namespace dtc {
namespace {

constexpr int64_t Much = 1'000'000'000;

CommandWords words() {
  CommandWords words;
  words.model = "models/my gpt";
  words.cluster = "c.textproto";
  words.target = "cpu:native";
  words.assignments = {"global_batch=8"};
  return words;
}

TEST(PlanCommandsTest, WithoutAPipelineNoTimetableIsNamed) {
  plans::Candidate plan;
  plan.mesh = {{"dp", 4}};
  plan.state = "zero1";
  plan.microBatches = 2;
  plan.recompute = "full";
  EXPECT_EQ(
      compileCommand(words(), plan),
      "dtc compile 'models/my gpt' --mesh dp=4 --strategy " + plan.strategyText() +
          " --set global_batch=8 --set accumulation=2 --set recompute=full --cluster c.textproto -o 'my gpt.train'");
}

TEST(PlanCommandsTest, WithChoicesTheOrderIsThePlans) {
  plans::Candidate plan;
  plan.mesh = {{"pp", 2}, {"dp", 2}};
  plan.timetable = "zbv";
  CommandWords all = words();
  all.model = "gpt";
  all.configFile = "train.toml";
  all.target = "cuda:sm_90";
  all.memoryLimit = 16'000'000'000;
  all.choicesFile = "choices.toml";
  EXPECT_EQ(compileCommand(all, plan),
            "dtc compile gpt --mesh pp=2,dp=2 --strategy " + plan.strategyText() +
                " --timetable zbv --config train.toml --set global_batch=8 --set accumulation=1 --set recompute=cheap "
                "--target cuda:sm_90 --memory-limit 16000000000 --choices choices.toml --schedule-effort 1 --cluster "
                "c.textproto -o gpt.train");
}

TEST(PlanCommandsTest, RanksOfOneHostAreStartedByDtcRun) {
  CommandWords its = words();
  EXPECT_EQ(runCommand(its, problemOn(gpus(8, Much), 4)), "dtc run 'my gpt.train' --data FILE");
  its.data = "book.bin";
  EXPECT_EQ(runCommand(its, problemOn(gpus(8, Much), 1)), "dtc run 'my gpt.train' --data book.bin");
}

// Nodes have four devices.
TEST(PlanCommandsTest, OfSeveralHostsByTheirNames) {
  CommandWords its = words();
  its.model = "gpt";
  EXPECT_EQ(runCommand(its, problemOn(gpus(8, Much), 8)), "dtc run --hosts node1:4,node2:4 gpt.train --data FILE");
  EXPECT_EQ(runCommand(its, problemOn(gpus(8, Much), 6)), "dtc run --hosts node1:4,node2:2 gpt.train --data FILE");
  EXPECT_EQ(runCommand(its, problemOn(gpus(8, Much), 32)),
            "DTC_TOKEN=$(openssl rand -hex 32) srun --nodes=8 --ntasks=32 --ntasks-per-node=4 ./gpt.train --data FILE");
}

// Two nodes of four devices, then some of two: ranks fill them in this order. srun starts as many ranks on each node.
TEST(PlanCommandsTest, NodesWithUnequalNumbersOfRanks) {
  plans::Problem problem = problemOn(gpus(2, Much), 12);
  timing::Nodes &small = *problem.cluster.add_nodes();
  small = problem.cluster.nodes(0);
  small.set_devices(2);
  problem.cluster.mutable_levels(0)->set_units(0);
  CommandWords its = words();
  its.model = "gpt";
  EXPECT_EQ(runCommand(its, problem),
            "dtc run --hosts node1:4,node2:4,node3:2,node4:2 gpt.train --data FILE");
  problem.cluster.mutable_nodes(1)->set_count(4);
  problem.devices = 16;
  EXPECT_EQ(runCommand(its, problem),
            "dtc run --hosts node1:4,node2:4,node3:2,node4:2,node5:2,node6:2 gpt.train --data FILE");
}

TEST(PlanCommandsTest, NotesSayWhatToReplace) {
  CommandWords its = words();
  std::vector<std::string> notes = commandNotes(its, problemOn(gpus(2, Much), 8));
  ASSERT_EQ(notes.size(), 3U);
  EXPECT_EQ(notes[0].find("FILE: "), 0U);
  EXPECT_EQ(notes[1].find("node1, ...: "), 0U);
  EXPECT_EQ(notes[2].find("with -o FILE "), 0U);
  its.data = "book.bin";
  its.choicesFile = "choices.toml";
  EXPECT_TRUE(commandNotes(its, problemOn(gpus(2, Much), 4)).empty());
  EXPECT_EQ(commandNotes(its, problemOn(gpus(8, Much), 32)).size(), 1U);
}

TEST(PlanCommandsTest, TheTargetIsWhatTheClusterHas) {
  timing::Cluster cluster = gpus(1, Much);
  EXPECT_EQ(targetFor(cluster), "cuda:sm_80");
  cluster.mutable_nodes(0)->set_device("H100-SXM-80GB");
  EXPECT_EQ(targetFor(cluster), "cuda:sm_90");
  cluster.mutable_nodes(0)->set_device("B200");
  EXPECT_EQ(targetFor(cluster), "cuda:sm_100");
  cluster.mutable_nodes(0)->set_cores(2);
  EXPECT_EQ(targetFor(cluster), "cpu:native");
}

} // namespace
} // namespace dtc
