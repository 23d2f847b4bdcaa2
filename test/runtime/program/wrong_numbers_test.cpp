// Whole runs in which memory or arithmetic goes wrong: values that are not finite, replicas that differ, steps that do
// not repeat.
#include "test/runtime/program/manifests.h"
#include "test/runtime/program/training.h"

namespace dtc::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST_F(TrainingTest, ANonFiniteLossStopsBeforeTheUpdateAndNamesTheLayer) {
  EXPECT_EQ(run(compile("two", {.dp = 2}), 2, {"--out", directory / "a", "--set", "learning_rate=1e30"}), 5);
  EXPECT_THAT(output, AllOf(HasSubstr("layer 'layer.table'"), HasSubstr("on rank "), HasSubstr("toy_loss")));
  EXPECT_FALSE(std::filesystem::exists(directory / "a/checkpoints"));
}

// The weights after the first step are huge but finite, the loss of the second is not.
TEST_F(TrainingTest, ACheckpointUnderWayIsFinishedWhenTheNextStepIsNotFinite) {
  EXPECT_EQ(run(compile("two", {.dp = 2}), 2,
                {"--out", directory / "a", "--set", "learning_rate=1e30", "--set", "checkpoint_every=1"}),
            5);
  EXPECT_THAT(output,
              AllOf(HasSubstr("step 2: "), HasSubstr("checkpoint: " + directory / "a/checkpoints/step-000001")));
  EXPECT_TRUE(std::filesystem::exists(directory / "a/checkpoints/step-000001/checksums.txt"));
}

// The parameter of rank 1 changes after step 40. Nothing in the loss would tell.
TEST_F(TrainingTest, AReplicaThatWentWrongEndsTheRun) {
  std::string three = compile("three", {.dp = 3, .globalBatch = 6, .flip = {"turn", "table", 1, 40}});
  EXPECT_EQ(run(three, 3, {"--out", directory / "a", "--steps", "1000000"}), 7);
  EXPECT_THAT(output, AllOf(HasSubstr("replicas: 3 of 3 parameters and optimizer slots are compared"),
                            HasSubstr("error: rank 1: after step "),
                            HasSubstr("'layer.table' is not the same on all ranks that store it: rank 1 differs from "
                                      "ranks 0, 2;"),
                            HasSubstr("dtc: error: rank 1 failed first, with exit code 7")));
  auto numberAfter = [&](const std::string &words) {
    size_t at = output.find(words);
    return at == std::string::npos ? -1 : std::stoll(output.substr(at + words.size()));
  };
  int64_t every = numberAfter("replicas are compared every "), found = numberAfter("error: rank 1: after step ");
  ASSERT_GT(every, 0) << output;
  EXPECT_EQ(found, (40 + every - 1) / every * every) << output;
  EXPECT_FALSE(std::filesystem::exists(directory / "a/checkpoints/step-000040"));
}

// What began before is finished, and nothing after it is begun.
TEST_F(TrainingTest, ACheckpointNeverMixesReplicas) {
  for (int64_t call : {6, 10}) { // the last checkpoint is written in another way
    std::string two = compile("two", {.dp = 2, .tp = 2, .flip = {"turn", "table.moment", 3, call}}),
                out = directory / std::to_string(call);
    EXPECT_EQ(run(two, 4, {"--out", out, "--set", "checkpoint_every=2"}), 7);
    EXPECT_THAT(output, AllOf(HasSubstr(fmt::format("after step {}: 'layer.table.momentum_buffer'", call)),
                              HasSubstr("ranks 1, 3 differ"), HasSubstr("the last checkpoint by --resume")));
    std::set<std::string> names;
    for (const auto &entry : std::filesystem::directory_iterator(out + "/checkpoints"))
      names.insert(entry.path().filename());
    EXPECT_TRUE(names.contains(fmt::format("step-{:06}", call - 2)));
    EXPECT_FALSE(names.contains(fmt::format("step-{:06}", call)));
    EXPECT_EQ(names.size(), static_cast<size_t>(call / 2 - 1));
  }
}

// Steps 2, 4 and 6 call it twice: the eighth call is in the first pass of step 6.
TEST_F(TrainingTest, AStepThatComesOutDifferentTheSecondTimeIsNoticed) {
  for (int64_t rank : {0, 1}) {
    std::string two = compile("two", {.dp = 2, .flip = {"begin", "table.gradient", rank, 8}}),
                out = directory / std::to_string(rank);
    EXPECT_EQ(run(two, 2, {"--out", out, "--replay-check", "2", "--set", "checkpoint_every=1"}), 7);
    EXPECT_THAT(output, AllOf(HasSubstr("replay check: one of every 2 steps is computed twice"),
                              HasSubstr(fmt::format("error: rank {}: step 6, computed twice", rank)),
                              HasSubstr(fmt::format("first in layer 'layer.flipped' on rank {} (kernel toy_flip, list "
                                                    "'begin', command 1, micro-batch 0)",
                                                    rank))));
    EXPECT_TRUE(std::filesystem::exists(out + "/checkpoints/step-000005"));
    EXPECT_FALSE(std::filesystem::exists(out + "/checkpoints/step-000006"));
  }
}

TEST_F(TrainingTest, AStepThatIsComputedTwiceIsTheSame) {
  for (const ToyOptions &options : {ToyOptions{.dp = 2, .tp = 2}, ToyOptions{.dp = 2, .accumulation = 2}}) {
    std::string program = compile("program", options), out = std::to_string(options.accumulation);
    int ranks = static_cast<int>(options.dp * options.tp);
    EXPECT_EQ(train(program, ranks, "twice" + out, {"--replay-check", "1"}), train(program, ranks, "once" + out));
  }
}

// A kernel claims an output and leaves its contents unchanged: in the first pass they are those of the step before.
TEST_F(TrainingTest, GapsInWhatIsWrittenAreNoDifference) {
  dtc::abi::Manifest manifest = toyManifest({.flip = {"begin", "table.gradient", 0, 0}});
  manifest.mutable_lists(0)->mutable_commands()->SwapElements(0, 1);
  train(writeToy("gap", manifest), 1, "a", {"--replay-check", "1"});
}

// Likewise in memory of the host, which is read before this pass has written there.
TEST_F(TrainingTest, WhatIsLeftInTheHostIsNoDifference) {
  dtc::abi::Manifest manifest = toyManifest({});
  dtc::abi::Role &role = *manifest.mutable_roles(0);
  auto addressOf = [&](const std::string &name) {
    return std::ranges::find(role.tensors(), name, &dtc::abi::Tensor::name)->address();
  };
  role.set_host_bytes(64);
  uint64_t host = dtc::abi::addressOf(addSpace(role, dtc::abi::Space::HOST, 0, 64), 0);
  for (auto [from, to] : {std::pair(host, addressOf("scratch")), std::pair(addressOf("table.gradient"), host)}) {
    dtc::abi::Copy &copy = *listIn(manifest, "begin").add_commands()->mutable_copy();
    copy.set_input(from);
    copy.set_output(to);
    copy.set_elements(1);
  }
  train(writeToy("left", manifest), 1, "a", {"--replay-check", "1"});
}

//===----------------------------------------------------------------------===//
// What is not finite
//===----------------------------------------------------------------------===//

// The loss and the gradients of the one step are finite, the weights after it are not.
TEST_F(TrainingTest, AnUpdateThatIsNotFiniteIsNotSaved) {
  dtc::abi::Manifest manifest = toyManifest({.dp = 2});
  for (double heldOut : {0.0, 0.1}) {
    manifest.mutable_training()->set_validation_fraction(heldOut);
    std::string two = writeToy("two", manifest), out = directory / std::to_string(heldOut);
    EXPECT_EQ(run(two, 2, {"--out", out, "--steps", "1", "--set", "learning_rate=1e300"}), 5);
    EXPECT_THAT(output, AllOf(HasSubstr("step 1: "), HasSubstr("of 'layer.table' is ")));
    EXPECT_FALSE(std::filesystem::exists(out + "/checkpoints"));
  }
}

TEST_F(TrainingTest, AnEvaluationThatIsNotFiniteFails) {
  std::string two = compile("two", {.dp = 2});
  train(two, 2, "a");
  std::string weights = directory / "a/checkpoints/step-000010/model.safetensors", bytes = readFile(weights);
  float nan = NAN;
  bytes.replace(bytes.size() - 44, 4, reinterpret_cast<char *>(&nan), 4); // the table's first: five, then six frozen
  std::ofstream(weights, std::ios::binary) << bytes;
  std::filesystem::remove(directory / "a/checkpoints/step-000010/checksums.txt");
  EXPECT_EQ(
      run(two, 2, {"--out", directory / "b", "--eval-only", "--weights", directory / "a/checkpoints/step-000010"}), 5);
  EXPECT_THAT(output, AllOf(HasSubstr("held-out loss is nan"), HasSubstr("element 0 of 'layer.table' is nan")));
  EXPECT_EQ(readFile(directory / "b/metrics.jsonl"), "");
}

} // namespace
} // namespace dtc::test
