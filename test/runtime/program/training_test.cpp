// Whole runs of a compiled program, as processes: what a user sees.
#include "runtime/abi/container.h"
#include "runtime/data/token_file.h"
#include "runtime/launch/supervisor.h"
#include "runtime/program/agreement.h"
#include "test/runtime/program/toy_model.h"
#include "test/runtime/temporary_directory.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace dtc;
using namespace dtc::test;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

namespace {

using Arguments = std::vector<std::string>;

/// A job of supervised ranks in the background.
class Job {
public:
  Job(const std::string &program, int ranks, Arguments arguments, std::string outputPath) : outputPath(outputPath) {
    std::filesystem::remove(outputPath); // of an earlier job
    supervisor = fork();
    if (supervisor != 0)
      return;
    int file = open(outputPath.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    dup2(file, STDOUT_FILENO);
    dup2(file, STDERR_FILENO);
    arguments.insert(arguments.begin(), program);
    SupervisorResult result = superviseRanks({.command = arguments, .ranks = ranks});
    if (!result.words.empty())
      sayAsLauncher(result.words);
    _exit(result.exitCode);
  }
  ~Job() { join(); }

  int join() {
    int status = 0;
    if (supervisor > 0 && waitpid(supervisor, &status, 0) == supervisor)
      code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    supervisor = -1;
    return code;
  }

  void signal(int number) const { kill(supervisor, number); }

  std::vector<pid_t> ranks() const {
    std::ifstream file("/proc/" + std::to_string(supervisor) + "/task/" + std::to_string(supervisor) + "/children");
    std::vector<pid_t> all;
    for (pid_t child; file >> child;)
      all.push_back(child);
    return all;
  }

  /// Whether `text` appears in the output within some seconds.
  bool awaitOutput(const std::string &text) const {
    for (int i = 0; i < 1000; ++i) {
      if (readFile(outputPath).find(text) != std::string::npos)
        return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }

private:
  std::string outputPath;
  pid_t supervisor;
  int code = -1;
};

class TrainingTest : public testing::Test {
protected:
  TrainingTest() {
    std::vector<uint16_t> tokens;
    for (int i = 0; i < 2000; ++i)
      tokens.push_back(static_cast<uint16_t>(i * i % 7 % 5));
    data = directory / "tokens.bin";
    writeTokenFile(data, tokens);
  }

  std::string compile(const std::string &name, const ToyOptions &options) {
    return writeToy(name, toyManifest(options));
  }
  std::string writeToy(const std::string &name, const dtc::abi::Manifest &manifest) {
    writeProgram(DTC_PROGRAM, manifest.SerializeAsString(), readFile(DTC_TOY_KERNELS), directory / name);
    return directory / name;
  }

  Job start(const std::string &program, int ranks, Arguments arguments) {
    for (const char *argument : {"--threads", "1", "--data"})
      arguments.push_back(argument);
    arguments.push_back(data);
    return Job(program, ranks, arguments, directory / "output");
  }

  int run(const std::string &program, int ranks, const Arguments &arguments) {
    int code = start(program, ranks, arguments).join();
    output = readFile(directory / "output");
    return code;
  }

  /// The lines of --log-losses.
  std::vector<std::string> losses(const std::string &name) {
    std::istringstream file(readFile(directory / name));
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);)
      lines.push_back(line);
    return lines;
  }

  std::vector<std::string> train(const std::string &program, int ranks, const std::string &name, Arguments more = {}) {
    Arguments arguments = {"--out", directory / name, "--log-losses", directory / (name + ".losses")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    EXPECT_EQ(run(program, ranks, arguments), 0) << output;
    return losses(name + ".losses");
  }

  static void expectNear(const std::vector<std::string> &a, const std::vector<std::string> &b) {
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      double x = std::stod(a[i].substr(a[i].find(' '))), y = std::stod(b[i].substr(b[i].find(' ')));
      EXPECT_NEAR(x, y, 1e-5 * std::abs(x)) << "line " << i;
    }
  }

  TemporaryDirectory directory;
  std::string data, output;
};

TEST_F(TrainingTest, EveryLayoutTrainsTheSame) {
  std::vector<std::string> one = train(compile("one", {}), 1, "a");
  ASSERT_EQ(one.size(), 10u);
  EXPECT_LT(std::stod(one[9].substr(3)), std::stod(one[0].substr(2)));
  expectNear(one, train(compile("four", {.dp = 2, .tp = 2}), 4, "b"));
  EXPECT_THAT(output, AllOf(HasSubstr("dp=2,tp=2 (4 ranks"), HasSubstr("held-out loss")));
  expectNear(one, train(compile("accumulate", {.dp = 2, .accumulation = 2}), 2, "c"));
}

TEST_F(TrainingTest, ResumesBitForBitOnTheSameLayoutAndCloselyOnOthers) {
  std::string four = compile("four", {.dp = 2, .tp = 2});
  std::vector<std::string> whole = train(four, 4, "a", {"--set", "checkpoint_every=5"});
  std::vector<std::string> second(whole.begin() + 5, whole.end());
  EXPECT_EQ(train(four, 4, "b", {"--resume", directory / "a/checkpoints/step-000005"}), second);
  expectNear(second, train(compile("one", {}), 1, "c", {"--resume", directory / "a/checkpoints/step-000005"}));
  // The latest of a folder is the end: nothing is left to do.
  EXPECT_TRUE(train(four, 4, "d", {"--resume", directory / "a"}).empty());
}

TEST_F(TrainingTest, StopsAfterACheckpointWhenInterruptedAndGoesOnAsIfNothingHadHappened) {
  std::vector<std::string> whole = train(compile("fast", {.dp = 2}), 2, "a");
  std::string slow = compile("slow", {.dp = 2, .sleepMicroseconds = 200000});
  Job job = start(slow, 2, {"--out", directory / "b", "--log-losses", directory / "b.losses"});
  ASSERT_TRUE(job.awaitOutput("step 2/10"));
  job.signal(SIGINT);
  EXPECT_EQ(job.join(), 130);
  EXPECT_THAT(readFile(directory / "output"), HasSubstr("go on with --resume"));
  std::vector<std::string> all = losses("b.losses"),
                           rest = train(compile("fast", {.dp = 2}), 2, "c", {"--resume", directory / "b"});
  all.insert(all.end(), rest.begin(), rest.end());
  EXPECT_EQ(all, whole);
}

TEST_F(TrainingTest, StopsAtOnceWhenInterruptedTwice) {
  Job job = start(compile("slow", {.dp = 2, .sleepMicroseconds = 60'000'000}), 2, {"--out", directory / "a"});
  ASSERT_TRUE(job.awaitOutput("2 ranks"));
  job.signal(SIGINT);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  job.signal(SIGINT);
  EXPECT_EQ(job.join(), 130);
  EXPECT_FALSE(std::filesystem::exists(directory / "a/checkpoints"));
}

TEST_F(TrainingTest, PeersOfADeadRankStopAndNameIt) {
  Job job = start(compile("slow", {.dp = 2, .tp = 2, .sleepMicroseconds = 200000}), 4, {"--out", directory / "a"});
  ASSERT_TRUE(job.awaitOutput("step 1/10"));
  std::vector<pid_t> ranks = job.ranks();
  ASSERT_EQ(ranks.size(), 4u);
  auto begin = std::chrono::steady_clock::now();
  kill(ranks[2], SIGKILL);
  EXPECT_EQ(job.join(), 4);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  EXPECT_THAT(readFile(directory / "output"),
              AllOf(HasSubstr("rank 2 was ended by signal 9"), HasSubstr("error: rank 0: rank 2 was lost")));
}

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

TEST_F(TrainingTest, TheNumberOfRanksMustFitTheMesh) {
  std::string four = compile("four", {.dp = 2, .tp = 2});
  EXPECT_EQ(run(four, 2, {"--out", directory / "a"}), 3);
  EXPECT_THAT(output, AllOf(HasSubstr("4 ranks (mesh dp=2,tp=2), but 2 started"), HasSubstr("dtc run -n 4")));
}

TEST_F(TrainingTest, BadInputIsToldOnceWithItsOwnExitCode) {
  std::string two = compile("two", {.dp = 2});
  writeTokenFile(data, std::vector<uint16_t>{1, 2, 3, 900, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                                             0, 0, 0, 0,   0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                                             0, 0, 0, 0,   0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  EXPECT_EQ(run(two, 2, {"--out", directory / "a"}), 3);
  // One rank tells it; the launcher closes with that rank and its words.
  size_t first = output.find("error: rank 0: "), last = output.find("dtc run: rank 0 failed first, with exit code 3: ");
  ASSERT_LT(first, last) << output;
  EXPECT_LT(output.find("position 3 is 900", first), last);
  EXPECT_NE(output.find("position 3 is 900", last), std::string::npos);
  EXPECT_EQ(output.find("error: ", first + 1), std::string::npos) << output;
  EXPECT_EQ(run(two, 2, {"--resume", directory / "nothing"}), 3);
  EXPECT_THAT(output, HasSubstr("no checkpoint in"));
  EXPECT_EQ(run(two, 2, {"--stepps", "3"}), 2);
  EXPECT_THAT(output, HasSubstr("--stepps"));
  EXPECT_EQ(run(two, 2, {"--set", "dropout=0.5"}), 2);
  EXPECT_THAT(output, HasSubstr("--set dropout=0.5: it is compiled in"));
}

TEST_F(TrainingTest, WritesMetricsUnderTorchtitansNames) {
  std::string one = compile("one", {});
  train(one, 1, "a");
  std::istringstream file(readFile(directory / "a/metrics.jsonl"));
  int steps = 0;
  double validation = NAN;
  for (std::string line; std::getline(file, line);) {
    auto json = nlohmann::json::parse(line);
    if (json.contains("validation_metrics/loss")) {
      validation = json["validation_metrics/loss"];
      continue;
    }
    EXPECT_EQ(json["step"], ++steps);
    for (const char *key : {"loss_metrics/global_avg_loss", "lr", "throughput(tps)", "mfu(%)",
                            "time_metrics/end_to_end(s)", "memory/max_reserved(GiB)"})
      EXPECT_GE(json[key].get<double>(), 0) << key;
    EXPECT_EQ(json["n_tokens_seen"], steps * 8 * 4);
  }
  EXPECT_EQ(steps, 10);
  EXPECT_TRUE(std::isfinite(validation));
}

// The toy says three operations a token; a step of its four ranks has 8 samples of 4 tokens.
TEST_F(TrainingTest, RatesAreOfOneRank) {
  train(compile("four", {.dp = 2, .tp = 2}), 4, "a");
  std::istringstream file(readFile(directory / "a/metrics.jsonl"));
  int steps = 0;
  for (std::string line; std::getline(file, line);) {
    auto json = nlohmann::json::parse(line);
    if (!json.contains("throughput(tps)"))
      continue;
    ++steps;
    double rate = json["throughput(tps)"], seconds = json["time_metrics/end_to_end(s)"];
    EXPECT_NEAR(rate * seconds * 4, 32, 1e-9);
    EXPECT_NEAR(json["tflops"].get<double>() / rate, 3e-12, 1e-20);
    EXPECT_GT(json["mfu(%)"].get<double>(), 0);
    EXPECT_LT(json["mfu(%)"].get<double>(), 1) << "three operations a token are nothing";
  }
  EXPECT_EQ(steps, 10);
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

TEST_F(TrainingTest, TracesTheStepsAskedForOnAllRanks) {
  train(compile("two", {.dp = 2}), 2, "a", {"--trace", "3-4"});
  auto trace = nlohmann::json::parse(readFile(directory / "a/trace.json"));
  std::map<int, int> steps, losses;
  std::map<std::string, double> microseconds; // rank 0's steps
  for (const auto &event : trace["traceEvents"]) {
    if (event["ph"] != "X")
      continue;
    EXPECT_GE(event["dur"].get<double>(), 0);
    steps[event["pid"]] += event["cat"] == "step";
    if (event["cat"] == "step" && event["pid"] == 0)
      microseconds[event["name"]] = event["dur"];
    // Compute is the first line, each channel has one of its own: here for gradients and count, and for the loss.
    if (event["cat"] == "collective") {
      EXPECT_EQ(event["tid"], event["args"]["value"] == "loss_sum" ? 2 : 1);
      EXPECT_EQ(event["args"]["bytes"], event["args"]["value"] == "table.gradient" ? 20 : 4);
    } else if (event["cat"] != "step") {
      EXPECT_EQ(event["tid"], 0);
    }
    losses[event["pid"]] += event["name"] == "toy_loss" && event["args"]["location"] == "layer.table";
  }
  EXPECT_EQ(steps, (std::map<int, int>{{0, 2}, {1, 2}}));
  EXPECT_EQ(losses, (std::map<int, int>{{0, 2}, {1, 2}}));
  // Trace and metrics tell the same duration of a step, in different units.
  std::istringstream metrics(readFile(directory / "a/metrics.jsonl"));
  for (std::string line; std::getline(metrics, line);) {
    auto json = nlohmann::json::parse(line);
    auto traced = microseconds.find("step " + json["step"].dump());
    if (traced == microseconds.end() || !json.contains("lr"))
      continue;
    EXPECT_NEAR(traced->second, 1e6 * json["time_metrics/end_to_end(s)"].get<double>(), 0.01) << line;
    microseconds.erase(traced);
  }
  EXPECT_TRUE(microseconds.empty());
}

TEST_F(TrainingTest, EvaluatesTheWeightsOfACheckpoint) {
  std::string two = compile("two", {.dp = 2});
  train(two, 2, "a");
  auto lossIn = [](const std::string &text) {
    size_t at = text.find("held-out loss ");
    return at == std::string::npos ? text : text.substr(at, 20);
  };
  std::string trained = lossIn(output);
  EXPECT_EQ(
      run(two, 2, {"--out", directory / "b", "--eval-only", "--weights", directory / "a/checkpoints/step-000010"}), 0);
  EXPECT_EQ(lossIn(output), trained);
  EXPECT_THAT(output, Not(HasSubstr("checkpoint:")));
}

// Two micro-batches at once, of which the second adds to the first, and the sums over ranks in a list of their own.
TEST_F(TrainingTest, AnEvaluationRunsWhatItsTimetableSays) {
  dtc::abi::Manifest manifest = toyManifest({.dp = 2});
  train(writeToy("one", manifest), 2, "a");
  dtc::abi::Role &role = *manifest.mutable_roles(0);
  dtc::abi::CommandList &look = *std::ranges::find(*role.mutable_lists(), role.evaluation(0).list(),
                                                   [](const dtc::abi::CommandList &list) { return list.name(); });
  dtc::abi::CommandList join = look;
  join.mutable_commands()->DeleteSubrange(0, 1);
  look.mutable_commands()->DeleteSubrange(1, look.commands_size() - 1);
  dtc::abi::CommandList goOn = look;
  goOn.set_name("look_on");
  goOn.mutable_commands(0)->mutable_launch()->mutable_scalars(3)->set_value(0); // adds to the sums
  join.set_name("look_join");
  *role.add_lists() = goOn;
  *role.add_lists() = join;
  dtc::abi::TimetableEntry &second = *role.add_evaluation();
  second.set_list("look_on");
  second.set_micro_batch(1);
  role.add_evaluation()->set_list("look_join");
  std::string two = writeToy("two", manifest), before = output;
  EXPECT_EQ(
      run(two, 2, {"--out", directory / "b", "--eval-only", "--weights", directory / "a/checkpoints/step-000010"}), 0);
  auto lossIn = [](const std::string &text) {
    return text.substr(std::min(text.find("held-out loss "), text.size()), 20);
  };
  EXPECT_EQ(lossIn(output), lossIn(before));
}

// The gradient waits in the second place while something else is written to the first.
TEST_F(TrainingTest, AStepRunsItsEntriesInTheirSlots) {
  dtc::abi::Manifest manifest = toyManifest({});
  std::vector<std::string> expected = train(writeToy("plain", manifest), 1, "a");
  auto offsetOf = [&](const char *name) {
    return std::ranges::find(manifest.tensors(), name, [](const dtc::abi::Tensor &tensor) { return tensor.name(); })
        ->offset();
  };
  dtc::abi::Role &role = *manifest.mutable_roles(0);
  dtc::abi::SlotClass &places = *role.add_slot_classes();
  places.set_base(role.arena_bytes());
  places.set_stride(64);
  places.set_slots(2);
  uint64_t place = places.base(), gradient = offsetOf("table.gradient"), moment = offsetOf("table.moment");
  role.set_arena_bytes(role.arena_bytes() + 128);
  google::protobuf::RepeatedPtrField<dtc::abi::TimetableEntry> step;
  *step.Add() = role.step(0);
  auto copy = [&](const char *name, uint64_t from, uint64_t to, uint32_t slot) {
    dtc::abi::CommandList &list = *role.add_lists();
    list.set_name(name);
    dtc::abi::Copy &command = *list.add_commands()->mutable_copy();
    command.set_input(from);
    command.set_output(to);
    command.set_elements(5);
    step.Add()->set_list(name);
    step.rbegin()->set_slot(slot);
  };
  copy("keep", gradient, place, 1);
  copy("spoil", moment, place, 0);
  copy("lose", moment, gradient, 0);
  copy("take", place, gradient, 1);
  for (int entry = 1; entry < role.step_size(); ++entry)
    *step.Add() = role.step(entry);
  *role.mutable_step() = step;
  EXPECT_EQ(train(writeToy("slots", manifest), 1, "b"), expected);
}

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
// What a resumed run goes on with
//===----------------------------------------------------------------------===//

// The compiled seed is another: the checkpoint's holds.
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

// Before version 3 the fingerprint was of all data, however large.
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

// What is the user's to change is told.
TEST_F(TrainingTest, OtherSettingsAreToldAndRecorded) {
  std::string one = compile("one", {});
  train(one, 1, "a", {"--set", "checkpoint_every=5"});
  train(one, 1, "b", {"--resume", directory / "a/checkpoints/step-000005", "--set", "learning_rate=0.01"});
  EXPECT_THAT(output, AllOf(HasSubstr("learning_rate was 0.05 and is 0.01"), Not(HasSubstr("the program was"))));
  auto state = nlohmann::json::parse(readFile(directory / "b/checkpoints/step-000010/trainer_state.json"));
  EXPECT_EQ(state["settings"]["learning_rate"], 0.01);
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

//===----------------------------------------------------------------------===//
// Memory that goes wrong
//===----------------------------------------------------------------------===//

// The parameter of rank 1 changes after step 40. Nothing in the loss would tell.
TEST_F(TrainingTest, AReplicaThatWentWrongEndsTheRun) {
  std::string three = compile("three", {.dp = 3, .globalBatch = 6, .flip = {"turn", "table", 1, 40}});
  EXPECT_EQ(run(three, 3, {"--out", directory / "a", "--steps", "1000000"}), 7);
  EXPECT_THAT(output, AllOf(HasSubstr("replicas: 3 of 3 parameters and optimizer slots are compared"),
                            HasSubstr("error: rank 1: after step "),
                            HasSubstr("'layer.table' is not the same on all ranks that store it: rank 1 differs from "
                                      "ranks 0, 2;"),
                            HasSubstr("dtc run: rank 1 failed first, with exit code 7")));
  auto numberAfter = [&](const std::string &words) {
    size_t at = output.find(words);
    return at == std::string::npos ? -1 : std::stoll(output.substr(at + words.size()));
  };
  int64_t every = numberAfter("replicas are compared every "), found = numberAfter("error: rank 1: after step ");
  ASSERT_GT(every, 0) << output;
  EXPECT_EQ(found, (40 + every - 1) / every * every) << output;
  EXPECT_FALSE(std::filesystem::exists(directory / "a/checkpoints/step-000040"));
}

// What was good before is finished, and what follows is not begun.
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

// A kernel claims an output and leaves what is there: in the first pass that is of the step before.
TEST_F(TrainingTest, GapsInWhatIsWrittenAreNoDifference) {
  dtc::abi::Manifest manifest = toyManifest({.flip = {"begin", "table.gradient", 0, 0}});
  manifest.mutable_roles(0)->mutable_lists(0)->mutable_commands()->SwapElements(0, 1);
  train(writeToy("gap", manifest), 1, "a", {"--replay-check", "1"});
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
