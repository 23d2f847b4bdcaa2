// Whole runs of a compiled program, as processes: what a user sees.
#include "test/runtime/program/training.h"

#include <map>

namespace dtc::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// The lines of a run's metrics that have this key.
static std::vector<nlohmann::json> metricsWith(const std::string &key, const std::string &out) {
  std::vector<nlohmann::json> found;
  std::istringstream file(readFile(out + "/metrics.jsonl"));
  for (std::string line; std::getline(file, line);)
    if (auto json = nlohmann::json::parse(line); json.contains(key))
      found.push_back(std::move(json));
  return found;
}

TEST_F(TrainingTest, EveryLayoutTrainsTheSame) {
  std::vector<std::string> one = train(compile("one", {}), 1, "a");
  ASSERT_EQ(one.size(), 10u);
  EXPECT_LT(std::stod(one[9].substr(3)), std::stod(one[0].substr(2)));
  expectNear(one, train(compile("four", {.dp = 2, .tp = 2}), 4, "b"));
  EXPECT_THAT(output, AllOf(HasSubstr("dp=2,tp=2 (4 ranks"), HasSubstr("held-out loss")));
  expectNear(one, train(compile("accumulate", {.dp = 2, .accumulation = 2}), 2, "c"));
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
  // One rank reports it; the launcher ends with that rank and its message.
  size_t first = output.find("dtc: error: rank 0: "),
         last = output.find("dtc: error: rank 0 failed first, with exit code 3: ");
  ASSERT_LT(first, last) << output;
  EXPECT_LT(output.find("position 3 is 900", first), last);
  EXPECT_NE(output.find("position 3 is 900", last), std::string::npos);
  EXPECT_EQ(output.find("dtc: error: ", first + 1), last) << output;
  EXPECT_EQ(output.find("dtc: error: ", last + 1), std::string::npos) << output;
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

// The toy states three operations a token; a step of its four ranks has 8 samples of 4 tokens.
TEST_F(TrainingTest, RatesAreOfOneRank) {
  train(compile("four", {.dp = 2, .tp = 2}), 4, "a");
  int steps = 0;
  for (const nlohmann::json &json : metricsWith("throughput(tps)", directory / "a")) {
    ++steps;
    double rate = json["throughput(tps)"], seconds = json["time_metrics/end_to_end(s)"];
    EXPECT_NEAR(rate * seconds * 4, 32, 1e-9);
    EXPECT_NEAR(json["tflops"].get<double>() / rate, 3e-12, 1e-20);
    EXPECT_GT(json["mfu(%)"].get<double>(), 0);
    EXPECT_LT(json["mfu(%)"].get<double>(), 1) << "three operations a token are nothing";
  }
  EXPECT_EQ(steps, 10);
}

/// The scalars of the first launch in a step whose fifth scalar says how long to sleep.
static dtc::abi::Scalar &sleepIn(dtc::abi::Manifest &manifest) {
  for (dtc::abi::CommandList &list : *manifest.mutable_lists())
    for (dtc::abi::Command &command : *list.mutable_commands())
      if (list.duty() == dtc::abi::CommandList::BOTH_PASSES && command.has_launch() &&
          command.launch().scalars_size() == 5)
        return *command.mutable_launch()->mutable_scalars(4);
  throw std::runtime_error("the toy does not sleep");
}

// Only rank 1 sleeps: the other waits for it, and has computed next to nothing.
TEST_F(TrainingTest, ARankThatComputesForLongIsNamed) {
  dtc::abi::Manifest manifest = toyManifest({.dp = 2});
  dtc::abi::RankIndex &rank = *sleepIn(manifest).mutable_rank_index();
  rank.set_scale(30000); // microseconds
  dtc::abi::AxisRef &axis = *rank.add_axes();
  axis.set_axis("dp");
  axis.set_pre(1);
  axis.set_size(2);
  train(writeToy("two", manifest), 2, "a", {"--steps", "45"});
  EXPECT_THAT(output, HasSubstr("warning: rank 1 computes 0.03"));
  EXPECT_THAT(output, HasSubstr("times as long as the median of ranks with equal work, for 20 steps in a row"));
  EXPECT_EQ(output.find("rank 1 computes"), output.rfind("rank 1 computes")) << "it is told once";
  EXPECT_THAT(output, Not(HasSubstr("rank 0 computes")));
  int slow = 0;
  for (const nlohmann::json &json : metricsWith("lr", directory / "a")) {
    EXPECT_GE(json["time_metrics/compute_max(s)"].get<double>(), 0.03);
    EXPECT_LT(json["time_metrics/compute_min(s)"].get<double>(), json["time_metrics/compute_median(s)"].get<double>());
    slow += json["time_metrics/slowest_rank"] == 1;
  }
  EXPECT_GE(slow, 40);
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
    // Compute is the first line, and each channel has its own: here one for gradients and count, and one for the loss.
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

} // namespace
} // namespace dtc::test
