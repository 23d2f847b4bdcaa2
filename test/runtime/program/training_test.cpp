// Whole runs of a compiled program, as processes: what a user sees.
#include "test/runtime/program/manifests.h"
#include "test/runtime/program/training.h"

#include <map>
#include <tuple>

namespace dtc::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

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

/// The scalars of the first launch in a step whose fifth one says how long to sleep.
static dtc::abi::Scalar &sleepIn(dtc::abi::Manifest &manifest) {
  for (dtc::abi::CommandList &list : *manifest.mutable_lists())
    for (dtc::abi::Command &command : *list.mutable_commands())
      if (list.duty() == dtc::abi::CommandList::BOTH_PASSES && command.has_launch() &&
          command.launch().scalars_size() == 5)
        return *command.mutable_launch()->mutable_scalars(4);
  throw std::runtime_error("the toy does not sleep");
}

// Rank 1 alone sleeps: the other waits for it, and has computed next to nothing.
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
  std::istringstream file(readFile(directory / "a/metrics.jsonl"));
  int slow = 0;
  for (std::string line; std::getline(file, line);) {
    auto json = nlohmann::json::parse(line);
    if (!json.contains("lr"))
      continue;
    EXPECT_GE(json["time_metrics/compute_max(s)"].get<double>(), 0.03);
    EXPECT_LT(json["time_metrics/compute_min(s)"].get<double>(), json["time_metrics/compute_median(s)"].get<double>());
    slow += json["time_metrics/slowest_rank"] == 1;
  }
  EXPECT_GE(slow, 40);
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
  dtc::abi::CommandList &look = listIn(manifest, "look");
  dtc::abi::CommandList join = look;
  join.mutable_commands()->DeleteSubrange(0, 1);
  look.mutable_commands()->DeleteSubrange(1, look.commands_size() - 1);
  dtc::abi::CommandList goOn = look;
  goOn.set_name("look_on");
  goOn.mutable_commands(0)->mutable_launch()->mutable_scalars(3)->set_value(0); // adds to the sums
  join.set_name("look_join");
  join.set_duty(dtc::abi::CommandList::ONCE);
  *manifest.add_lists() = goOn;
  *manifest.add_lists() = join;
  addEntry(role, dtc::abi::evaluationTimetable, "look_on").set_micro_batch(1);
  addEntry(role, dtc::abi::evaluationTimetable, "look_join");
  std::string two = writeToy("two", manifest), before = output;
  EXPECT_EQ(
      run(two, 2, {"--out", directory / "b", "--eval-only", "--weights", directory / "a/checkpoints/step-000010"}), 0);
  auto lossIn = [](const std::string &text) {
    return text.substr(std::min(text.find("held-out loss "), text.size()), 20);
  };
  EXPECT_EQ(lossIn(output), lossIn(before));
}

// The gradient waits in the second place while something else is written to the first.
TEST_F(TrainingTest, AStepRunsItsEntriesInTheirPlaces) {
  dtc::abi::Manifest manifest = toyManifest({});
  std::vector<std::string> expected = train(writeToy("plain", manifest), 1, "a");
  dtc::abi::Role &role = *manifest.mutable_roles(0);
  auto addressOf = [&](const char *name) {
    return std::ranges::find(role.tensors(), name, [](const dtc::abi::Tensor &tensor) { return tensor.name(); })
        ->address();
  };
  uint64_t gradient = addressOf("table.gradient"), moment = addressOf("table.moment");
  uint64_t place = dtc::abi::addressOf(addSpace(role, dtc::abi::Space::REGISTERED, role.arena_bytes(), 64, 2), 0);
  role.set_arena_bytes(role.arena_bytes() + 128);
  auto &entries = entriesOf(manifest);
  google::protobuf::RepeatedPtrField<dtc::abi::TimetableEntry> step;
  *step.Add() = entries[0];
  auto copy = [&](const char *name, uint64_t from, uint64_t to, uint32_t number) {
    dtc::abi::Copy &command = *addList(manifest, name).add_commands()->mutable_copy();
    command.set_input(from);
    command.set_output(to);
    command.set_elements(5);
    step.Add()->set_list(name);
    for (uint32_t each : {0U, number})
      step.rbegin()->add_places(each);
  };
  copy("keep", gradient, place, 1);
  copy("spoil", moment, place, 0);
  copy("lose", moment, gradient, 0);
  copy("take", place, gradient, 1);
  for (int entry = 1; entry < entries.size(); ++entry)
    *step.Add() = entries[entry];
  entries = step;
  EXPECT_EQ(train(writeToy("slots", manifest), 1, "b"), expected);
}

// Tokens and targets of a micro-batch lie in places of their own, filled while others wait to be read.
TEST_F(TrainingTest, InputsAreFilledInThePlaceOfTheEntry) {
  dtc::abi::Manifest manifest = toyManifest({.accumulation = 2});
  std::vector<std::string> expected = train(writeToy("plain", manifest), 1, "a");
  dtc::abi::Role &role = *manifest.mutable_roles(0);
  uint32_t space = addSpace(role, dtc::abi::Space::REGISTERED, role.arena_bytes(), 512, 3);
  role.set_arena_bytes(role.arena_bytes() + 3 * 512);
  std::map<uint64_t, uint64_t> moved; // old address to new one
  for (dtc::abi::Tensor &tensor : *role.mutable_tensors())
    if (tensor.name() == "tokens" || tensor.name() == "targets") {
      uint64_t place = dtc::abi::addressOf(space, 256 * moved.size());
      moved[tensor.address()] = place;
      tensor.set_address(place);
    }
  for (const char *name : {"begin", "go_on", "look"})
    for (uint64_t &buffer : *listIn(manifest, name).mutable_commands(0)->mutable_launch()->mutable_buffers())
      if (auto to = moved.find(buffer); to != moved.end())
        buffer = to->second;
  for (auto &entry : entriesOf(manifest))
    if (entry.has_micro_batch()) {
      entry.add_places(0);
      entry.add_places(static_cast<uint32_t>(2 - entry.micro_batch()));
    }
  EXPECT_EQ(train(writeToy("placed", manifest), 1, "b"), expected);
}

// The runtime asks where an input's numbers come from, whatever the model calls it and however many are from there.
TEST_F(TrainingTest, InputsAreKnownByTheirSource) {
  dtc::abi::Manifest manifest = toyManifest({.accumulation = 2});
  std::vector<std::string> expected = train(writeToy("plain", manifest), 1, "a");
  dtc::abi::Role &role = *manifest.mutable_roles(0);
  for (dtc::abi::Tensor &tensor : *role.mutable_tensors())
    if (tensor.role() == dtc::abi::Tensor::INPUT)
      tensor.set_name(tensor.name() == "tokens"    ? "targets" // of another meaning
                      : tensor.name() == "targets" ? "labels"
                                                   : "key");
  dtc::abi::Tensor words = role.tensors(0); // again, for the lists but one
  words.set_name("words");
  words.set_address(role.arena_bytes());
  role.set_arena_bytes(role.arena_bytes() + 256);
  role.mutable_spaces(0)->set_stride(role.arena_bytes());
  for (const char *name : {"go_on", "look"})
    listIn(manifest, name).mutable_commands(0)->mutable_launch()->set_buffers(0, words.address());
  *role.add_tensors() = words;
  EXPECT_EQ(train(writeToy("renamed", manifest), 1, "b"), expected);
}

// Targets alone: what they are of the samples does not depend on there being tokens.
TEST_F(TrainingTest, NextTokensMayBeTheOnlyInput) {
  dtc::abi::Manifest manifest = toyManifest({});
  dtc::abi::Role &role = *manifest.mutable_roles(0);
  uint64_t targets = role.tensors(1).address();
  for (const char *name : {"begin", "go_on", "look"})
    listIn(manifest, name).mutable_commands(0)->mutable_launch()->set_buffers(0, targets);
  std::vector<std::string> expected = train(writeToy("both", manifest), 1, "a");
  role.mutable_tensors()->DeleteSubrange(0, 1);
  EXPECT_EQ(train(writeToy("alone", manifest), 1, "b"), expected);
}

// The sum of the gradients goes to the host and comes back, over something else that was put in its place.
TEST_F(TrainingTest, WhatIsMovedToTheHostComesBack) {
  dtc::abi::Manifest manifest = toyManifest({.dp = 2, .accumulation = 2});
  std::vector<std::string> expected = train(writeToy("plain", manifest), 2, "a");
  dtc::abi::Role &role = *manifest.mutable_roles(0);
  auto tensorOf = [&](const std::string &name) -> const dtc::abi::Tensor & {
    return *std::ranges::find(role.tensors(), name, &dtc::abi::Tensor::name);
  };
  const dtc::abi::Tensor &gradient = tensorOf("table.gradient");
  role.set_host_bytes(64);
  uint64_t host = dtc::abi::addressOf(addSpace(role, dtc::abi::Space::HOST, 0, 64), 0);
  auto copy = [&](dtc::abi::CommandList &list, uint64_t from, uint64_t to) -> dtc::abi::Copy & {
    dtc::abi::Copy &copy = *list.add_commands()->mutable_copy();
    copy.set_input(from);
    copy.set_output(to);
    copy.set_elements(gradient.local_shape(0));
    return copy;
  };
  copy(addList(manifest, "away"), gradient.address(), host).set_token(50);
  dtc::abi::CommandList &home = addList(manifest, "home");
  home.add_commands()->mutable_wait()->set_token(50);
  copy(home, tensorOf("table").address(), gradient.address());
  copy(home, host, gradient.address()).set_token(51);
  home.add_commands()->mutable_wait()->set_token(51);
  auto &step = entriesOf(manifest);
  for (const char *name : {"away", "home"}) {
    addEntry(role, dtc::abi::stepTimetable, name);
    for (int at = step.size() - 1; step[at - 1].list() == "join" || step[at - 1].list() == "turn"; --at)
      step.SwapElements(at, at - 1);
  }
  std::string program = writeToy("offloading", manifest);
  EXPECT_EQ(train(program, 2, "b"), expected);
  EXPECT_EQ(train(program, 2, "c", {"--replay-check", "1"}), expected);
  listIn(manifest, "home").mutable_commands()->DeleteSubrange(2, 2);
  EXPECT_NE(train(writeToy("lost", manifest), 2, "d"), expected);
}

// The tokens of a step are brought to where they are worked on while the step before is still at its own.
TEST_F(TrainingTest, AStepMayBeginBeforeTheOneBeforeItHasEnded) {
  dtc::abi::Manifest manifest = toyManifest({.dp = 2, .accumulation = 2});
  manifest.mutable_training()->set_eval_every(4);
  std::vector<std::string> expected = train(writeToy("plain", manifest), 2, "a");
  std::string evaluated = output.substr(output.find("step 4: held-out loss"), 30);
  dtc::abi::Role &role = *manifest.mutable_roles(0);
  uint32_t space = addSpace(role, dtc::abi::Space::REGISTERED, role.arena_bytes(), 512, 2);
  role.set_arena_bytes(role.arena_bytes() + 1024);
  dtc::abi::CommandList &bring = addList(manifest, "bring", dtc::abi::CommandList::FORWARD_PASS);
  for (int input : {0, 1}) {
    const dtc::abi::Tensor &tensor = role.tensors(input);
    dtc::abi::Copy &copy = *bring.add_commands()->mutable_copy();
    copy.set_type(dtc::abi::I32);
    copy.set_input(tensor.address());
    copy.set_output(dtc::abi::addressOf(space, 256 * static_cast<uint64_t>(input)));
    copy.set_elements(tensor.local_shape(0) * tensor.local_shape(1));
    for (const char *name : {"begin", "go_on"}) {
      dtc::abi::CommandList &list = listIn(manifest, name);
      list.set_duty(dtc::abi::CommandList::BACKWARD_PASS);
      list.mutable_commands(0)->mutable_launch()->set_buffers(input, copy.output());
    }
  }
  dtc::abi::Timetable &step = dtc::abi::timetableIn(role, dtc::abi::stepTimetable);
  *step.mutable_drain() = step.period();
  step.clear_period();
  for (dtc::abi::TimetableEntry &entry : *step.mutable_drain()) {
    for (uint32_t place : {0U, static_cast<uint32_t>(entry.micro_batch())})
      entry.add_places(place);
    *step.add_period() = entry;
    if (!entry.has_micro_batch())
      continue;
    *step.add_startup() = entry;
    step.mutable_startup()->rbegin()->set_list("bring");
    dtc::abi::TimetableEntry &next = *step.add_period();
    next = entry;
    next.set_list("bring");
    next.set_step(1);
  }
  // Evaluations read a mirror of the parameter, which drains alone keep up; a start begins from it.
  uint64_t mirror = dtc::abi::addressOf(addSpace(role, dtc::abi::Space::REGISTERED, role.arena_bytes(), 64), 0);
  role.set_arena_bytes(role.arena_bytes() + 64);
  uint64_t &read = *listIn(manifest, "look").mutable_commands(0)->mutable_launch()->mutable_buffers()->Mutable(2);
  for (auto [name, from, to] : {std::tuple("settle", read, mirror), std::tuple("open", mirror, read)}) {
    dtc::abi::Copy &copy = *addList(manifest, name).add_commands()->mutable_copy();
    copy.set_input(from);
    copy.set_output(to);
    copy.set_elements(5);
  }
  read = mirror;
  addEntry(role, dtc::abi::refreshTimetable, "settle");
  dtc::abi::Timetable &steps = dtc::abi::timetableIn(role, dtc::abi::stepTimetable); // the role has one more by now
  steps.add_drain()->set_list("settle");
  steps.add_startup()->set_list("open");
  EXPECT_EQ(train(writeToy("overlapping", manifest), 2, "b", {"--set", "checkpoint_every=3"}), expected);
  EXPECT_EQ(output.substr(output.find("step 4: held-out loss"), 30), evaluated);
  EXPECT_EQ(train(writeToy("resumed", manifest), 2, "c", {"--resume", directory / "b/checkpoints/step-000003"}),
            std::vector<std::string>(expected.begin() + 3, expected.end()));
  EXPECT_EQ(run(directory / "overlapping", 2, {"--out", directory / "d", "--replay-check", "2"}), 3);
  EXPECT_THAT(output, HasSubstr("begins a step before the one before has ended, and cannot repeat a step"));
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

//===----------------------------------------------------------------------===//
// Memory that goes wrong
//===----------------------------------------------------------------------===//

} // namespace
} // namespace dtc::test
