// Whole runs that find another run's results: whose folder it is, and what a resumed run continues with.
#include "test/runtime/program/training.h"

namespace dtc::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

//===----------------------------------------------------------------------===//
// One folder, one run
//===----------------------------------------------------------------------===//

TEST_F(TrainingTest, TheSecondJobInAFolderIsToldWhoHoldsIt) {
  std::string slow = compile("slow", {.dp = 2, .sleepMicroseconds = 100000});
  Job first = start(slow, 2, {"--out", directory / "a"});
  ASSERT_TRUE(first.awaitOutput("step 1/10"));
  std::string holder = std::to_string(first.ranks().front());
  std::filesystem::rename(directory / "output", directory / "first"); // the second writes one too
  EXPECT_EQ(run(slow, 2, {"--out", directory / "a"}), 3);
  EXPECT_THAT(output,
              AllOf(HasSubstr("process " + holder + " on "), HasSubstr(" is writing there"), HasSubstr("--out")));
  EXPECT_EQ(run(slow, 2, {"--out", directory / "a", "--resume", directory / "a"}), 3);
  EXPECT_THAT(output, HasSubstr("process " + holder));
  EXPECT_EQ(first.join(), 0);
  EXPECT_EQ(run(slow, 2, {"--out", directory / "a", "--resume", directory / "a"}), 0) << output;
}

TEST_F(TrainingTest, TwoRunsDoNotMixInOneFolder) {
  std::string one = compile("one", {});
  train(one, 1, "a", {"--set", "checkpoint_every=5"});
  std::string metrics = readFile(directory / "a/metrics.jsonl");
  EXPECT_EQ(run(one, 1, {"--out", directory / "a"}), 3);
  EXPECT_THAT(output, AllOf(HasSubstr("another run's results"), HasSubstr("step-000010"),
                            HasSubstr("--resume " + directory / "a")));
  train(one, 1, "b", {"--steps", "5"});
  EXPECT_EQ(run(one, 1, {"--out", directory / "a", "--resume", directory / "b"}), 3) << "b's run within a's";
  EXPECT_THAT(output, HasSubstr("another run's results"));
  EXPECT_EQ(run(one, 1, {"--out", directory / "a", "--resume", directory / "a/checkpoints/step-000005"}), 3);
  EXPECT_THAT(output, AllOf(HasSubstr("a later checkpoint"), HasSubstr("step-000010")));
  EXPECT_EQ(readFile(directory / "a/metrics.jsonl"), metrics);
  // A run that ended before its first checkpoint has results too.
  std::filesystem::remove_all(directory / "b/checkpoints");
  EXPECT_EQ(run(one, 1, {"--out", directory / "b"}), 3);
  EXPECT_THAT(output, HasSubstr("b/metrics.jsonl"));
  // Evaluating adds to what is there.
  EXPECT_EQ(run(one, 1, {"--out", directory / "a", "--eval-only"}), 0) << output;
}

//===----------------------------------------------------------------------===//
// What a resumed run continues with
//===----------------------------------------------------------------------===//

TEST_F(TrainingTest, ResumesBitForBitOnTheSameLayoutAndCloselyOnOthers) {
  std::string four = compile("four", {.dp = 2, .tp = 2});
  std::vector<std::string> whole = train(four, 4, "a", {"--set", "checkpoint_every=5"});
  std::vector<std::string> second(whole.begin() + 5, whole.end());
  EXPECT_EQ(train(four, 4, "b", {"--resume", directory / "a/checkpoints/step-000005"}), second);
  expectNear(second, train(compile("one", {}), 1, "c", {"--resume", directory / "a/checkpoints/step-000005"}));
  // The latest checkpoint of a folder is the end: nothing is left to do.
  EXPECT_TRUE(train(four, 4, "d", {"--resume", directory / "a"}).empty());
}

// Each step takes 0.4 s; after the first of the resumed run four are left.
TEST_F(TrainingTest, AResumedRunTellsTheTimeThatIsLeft) {
  train(compile("fast", {}), 1, "a", {"--steps", "5"});
  train(compile("slow", {.sleepMicroseconds = 400000}), 1, "b", {"--resume", directory / "a"});
  size_t line = output.find("step 6/10");
  ASSERT_NE(line, std::string::npos) << output;
  EXPECT_THAT(output.substr(line, output.find('\n', line) - line), Not(HasSubstr("ETA 0:00"))) << output;
  EXPECT_THAT(output.substr(line, output.find('\n', line) - line), HasSubstr("ETA "));
}

// The compiled seed differs: the checkpoint's is used.
TEST_F(TrainingTest, AResumedRunTakesOverTheSeed) {
  std::vector<std::string> whole = train(compile("one", {}), 1, "a", {"--set", "checkpoint_every=5"});
  std::vector<std::string> second(whole.begin() + 5, whole.end());
  std::string checkpoint = directory / "a/checkpoints/step-000005";
  dtc::abi::Manifest manifest = toyManifest({});
  manifest.mutable_training()->set_seed(77);
  std::string other = writeToy("other", manifest);
  EXPECT_EQ(train(other, 1, "b", {"--resume", checkpoint}), second);
  EXPECT_EQ(run(other, 1, {"--out", directory / "c", "--resume", checkpoint, "--set", "seed=5"}), 3);
  EXPECT_THAT(output, AllOf(HasSubstr("seed was 1 and is 5"), HasSubstr("--resume-anyway")));
  EXPECT_NE(train(other, 1, "d", {"--resume", checkpoint, "--set", "seed=5", "--resume-anyway"}), second);
  auto state = nlohmann::json::parse(readFile(directory / "d/checkpoints/step-000010/trainer_state.json"));
  EXPECT_EQ(state["seed"], 5);
}

TEST_F(TrainingTest, OtherDataOrBatchesAreRefusedUnlessInsistedOn) {
  train(compile("one", {}), 1, "a", {"--set", "checkpoint_every=5"});
  std::string checkpoint = directory / "a/checkpoints/step-000005";
  auto refusal = [&](const std::string &program) {
    EXPECT_EQ(run(program, 1, {"--out", directory / "b", "--resume", checkpoint}), 3);
    EXPECT_FALSE(std::filesystem::exists(directory / "b/checkpoints"));
    return output;
  };
  EXPECT_THAT(refusal(compile("batch", {.globalBatch = 4})), HasSubstr("global_batch was 8 and is 4"));
  dtc::abi::Manifest manifest = toyManifest({});
  manifest.mutable_training()->set_validation_fraction(0.25);
  EXPECT_THAT(refusal(writeToy("held-out", manifest)), HasSubstr("validation_fraction was 0.1 and is 0.25"));

  std::string bytes = readFile(data);
  bytes[bytes.size() - 2] = bytes[bytes.size() - 2] == 1 ? 2 : 1;
  std::ofstream(data) << bytes;
  EXPECT_THAT(refusal(compile("one", {})), HasSubstr("the data were 4000 bytes with the checksum "));
  EXPECT_EQ(run(compile("one", {}), 1, {"--out", directory / "b", "--resume", checkpoint, "--resume-anyway"}), 0)
      << output;
  EXPECT_THAT(output, HasSubstr("since then the data were"));
}

// Before version 3 the fingerprint covered all data, however large.
TEST_F(TrainingTest, AnOldCheckpointKnowsLargeDataByAllOfThem) {
  dtc::abi::Manifest manifest = toyManifest({});
  manifest.mutable_training()->set_validation_fraction(0); // there would be millions
  std::string one = writeToy("one", manifest);
  auto tokens = static_cast<int32_t>(2000);
  std::filesystem::resize_file(data, 1024 + 2 * (tokens += 40'000'000)); // of zeros
  std::fstream file(data, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(8);
  file.write(reinterpret_cast<const char *>(&tokens), 4);
  file.close();
  train(one, 1, "a", {"--steps", "1"});
  std::string path = directory / "a/checkpoints/step-000001/trainer_state.json";
  auto state = nlohmann::json::parse(readFile(path));
  EXPECT_EQ(state["format_version"], 3);
  state["data_hash"] = fmt::format("{:016x}", fingerprintOf(TokenData({data}), /*whole=*/true).hash);
  for (int version : {2, 3}) {
    state["format_version"] = version;
    std::ofstream(path) << state.dump();
    EXPECT_EQ(run(one, 1,
                  {"--out", directory / std::to_string(version), "--resume", directory / "a", "--steps", "2",
                   "--no-verify-checkpoint"}),
              version == 2 ? 0 : 3)
        << output;
  }
  EXPECT_THAT(output, HasSubstr("the data were"));
}

// A setting that the user may change is reported.
TEST_F(TrainingTest, OtherSettingsAreToldAndRecorded) {
  std::string one = compile("one", {});
  train(one, 1, "a", {"--set", "checkpoint_every=5"});
  train(one, 1, "b", {"--resume", directory / "a/checkpoints/step-000005", "--set", "learning_rate=0.01"});
  EXPECT_THAT(output, AllOf(HasSubstr("learning_rate was 0.05 and is 0.01"), Not(HasSubstr("the program was"))));
  auto state = nlohmann::json::parse(readFile(directory / "b/checkpoints/step-000010/trainer_state.json"));
  EXPECT_EQ(state["settings"]["learning_rate"], 0.01);
  EXPECT_EQ(state["settings"]["momentum"], 0.9);
  EXPECT_EQ(state["settings"]["weight_decay"], 0.0);
  EXPECT_EQ(state["settings"]["beta1"], 0.9) << "another optimizer's is there too, as in every earlier checkpoint";
  EXPECT_EQ(state["settings"]["schedule"], "cosine");
  EXPECT_EQ(state["data_bytes"], std::filesystem::file_size(data) - 1024); // the header
  train(compile("two", {.dp = 2}), 2, "c", {"--resume", directory / "a/checkpoints/step-000005"});
  EXPECT_THAT(output, AllOf(HasSubstr("the program was"), HasSubstr("(dp=1,tp=1) and is"), HasSubstr("(dp=2,tp=1)")));
}

TEST_F(TrainingTest, ADamagedLatestCheckpointGivesWayToTheOneBefore) {
  std::string two = compile("two", {.dp = 2});
  std::vector<std::string> whole = train(two, 2, "a", {"--set", "checkpoint_every=4"});
  std::string latest = directory / "a/checkpoints/step-000010", weights = latest + "/model.safetensors";
  std::fstream file(weights, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(std::filesystem::file_size(weights)) - 4);
  file.write("\0\0\0\0", 4);
  file.close();
  std::vector<std::string> last(whole.begin() + 8, whole.end());
  EXPECT_EQ(train(two, 2, "b", {"--resume", directory / "a"}), last);
  EXPECT_THAT(output, AllOf(HasSubstr("warning: checkpoint '" + latest + "' is damaged"), HasSubstr("layer.frozen"),
                            HasSubstr("start: checkpoint " + directory / "a/checkpoints/step-000008")));
  EXPECT_EQ(run(two, 2, {"--out", directory / "c", "--resume", latest}), 3);
  EXPECT_EQ(run(two, 2, {"--out", directory / "c", "--weights", latest}), 3);
  EXPECT_THAT(output, HasSubstr("layer.frozen"));
  EXPECT_EQ(run(two, 2, {"--out", directory / "c", "--weights", latest, "--no-verify-checkpoint"}), 0) << output;
  // In its own folder, too: the damaged one is replaced.
  EXPECT_EQ(train(two, 2, "a", {"--resume", directory / "a"}), last);
  EXPECT_EQ(train(two, 2, "d", {"--resume", directory / "a"}).size(), 0u);
  EXPECT_THAT(output, Not(HasSubstr("warning")));
}

TEST_F(TrainingTest, KeepsAsManyCheckpointsAsAskedFor) {
  train(compile("two", {.dp = 2}), 2, "a", {"--set", "checkpoint_every=2", "--set", "keep=2"});
  std::set<std::string> names;
  for (const auto &entry : std::filesystem::directory_iterator(directory / "a/checkpoints"))
    names.insert(entry.path().filename());
  EXPECT_EQ(names, (std::set<std::string>{"step-000008", "step-000010"}));
}

} // namespace
} // namespace dtc::test
