#include "runtime/program/train/training_loop.h"

#include "runtime/checkpoint/state.h"
#include "runtime/comm/local/in_process.h"
#include "runtime/data/token_writer.h"
#include "runtime/device/cpu_device.h"
#include "runtime/executor/observer.h"
#include "runtime/program/start/kernel_library.h"
#include "test/runtime/program/bringing.h"
#include "test/runtime/program/toy_model.h"
#include "test/runtime/temporary_directory.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <map>
#include <optional>
#include <ranges>
#include <string_view>
#include <utility>

using testing::ElementsAre;
using testing::ElementsAreArray;

namespace dtc::test {
namespace {

using Moments = std::vector<std::string>;

/// Records each moment, with its own name before it.
class Recorder : public TrainingObserver {
public:
  Recorder(std::string name, Moments &moments) : name(std::move(name)), moments(moments) {}

  void beginTraining(const TrainerState &done) override { add("begins after {}", done.step); }
  void beginStep(int64_t step) override { add("step {}", step); }
  void beforeStateChanges() override { add("changes"); }
  void stepRan() override { add("ran"); }
  void stepComputed(const ComputedStep &step) override { add("computed {}", step.number); }
  void addNews(StepNews &) override { add("news"); }
  void addMetrics(StepMetrics &) override { add("metrics"); }
  void reportStep(const TrainerState &done, const ComputedStep &, const std::vector<StepNews> &,
                  StepMetrics &) override {
    add("reports {}", done.step);
  }
  void takeNews(const std::vector<StepNews> &news) override { add("takes {}", news.size()); }
  bool readsState(int64_t step) const override { return step == readsStateAfter; }
  bool afterStep(const TrainerState &done, bool isUnderWay) override {
    add("after {}", done.step);
    underWay.push_back(isUnderWay);
    if (done.step == throwsAfter)
      throw Error("stopped");
    return done.step == takesLongAfter;
  }
  void endTraining(const TrainerState &done, int signal) override { add("ends after {} by {}", done.step, signal); }
  void failTraining(const Error &error) override { add("fails: {}", error.what()); }
  void endRun() override { add("end"); }

  int64_t takesLongAfter = -1, throwsAfter = -1, readsStateAfter = -1;
  std::vector<bool> underWay; ///< after each step

private:
  template <typename... Values> void add(fmt::format_string<const Values &...> text, const Values &...values) {
    moments.push_back(name + " " + fmt::format(text, values...));
  }

  std::string name;
  Moments &moments;
};

/// Two steps of the toy model on one rank, with two observers.
class TrainingLoopTest : public testing::Test {
protected:
  explicit TrainingLoopTest(abi::Manifest made = toyManifest({}), int64_t steps = 2) : manifest(std::move(made)) {
    writeTokenFile(directory / "tokens", std::vector<uint16_t>(500, 1));
    manifest.mutable_training()->set_steps(steps);
    RankState(manifest, 0, device, arena).initialize(1, 1);
    executor.emplace(manifest, *communicator, device, arena);
    data = TokenData({directory / "tokens"}, TokenFile::Format::LlmC);
    sampler.emplace(data, SamplerOptions{manifest.training().sequence_length(), 5, 0, 1});
  }

  int run() {
    TrainingLoop loop(*executor, *sampler, manifest.training(), done);
    loop.add(first);
    loop.add(second);
    return loop.run();
  }

  TemporaryDirectory directory;
  abi::Manifest manifest;
  std::string code = readFile(DTC_TOY_KERNELS);
  KernelLibrary kernels{code};
  CpuDevice device{1, [this](const abi::Kernel &kernel) { return kernels.find(kernel.symbol()); }};
  Arena arena{manifest.roles(0).arena_bytes(), manifest.roles(0).shared_begin()};
  InProcessJob alone{1};
  std::unique_ptr<Communicator> communicator = alone.join(0, arena);
  std::optional<Executor> executor;
  TokenData data;
  std::optional<Sampler> sampler;
  TrainerState done;
  Moments moments;
  Recorder first{"a", moments}, second{"b", moments};
};

/// What both observers write down, given the moments in words, one after the other.
Moments ofBoth(std::string_view words) {
  Moments both;
  for (auto word : std::views::split(words, std::string_view("; "))) {
    std::string moment(word.begin(), word.end());
    both.push_back("a " + moment);
    both.push_back("b " + moment);
  }
  return both;
}

TEST_F(TrainingLoopTest, CallsAllObserversAtEachMomentBeforeTheNext) {
  first.takesLongAfter = 1;
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(moments,
              ElementsAreArray(ofBoth("begins after 0; "
                                      "step 1; changes; ran; computed 1; news; metrics; reports 1; takes 1; after 1; "
                                      "news; takes 1; "
                                      "step 2; changes; ran; computed 2; news; metrics; reports 2; takes 1; after 2; "
                                      "ends after 2 by 0; end")));
  EXPECT_EQ(done.step, 2);
  EXPECT_EQ(done.samples, 16);
}

TEST_F(TrainingLoopTest, CallsAllObserversForTheErrorThatEndsTraining) {
  first.throwsAfter = 1;
  EXPECT_THROW(run(), Error);
  ASSERT_GE(moments.size(), 3u);
  EXPECT_THAT(Moments(moments.end() - 3, moments.end()),
              ElementsAre("a after 1", "a fails: stopped", "b fails: stopped"));
}

TEST_F(TrainingLoopTest, BeginsAndEndsWhereNoStepIsLeft) {
  done.step = 2;
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(moments, ElementsAreArray(ofBoth("begins after 2; ends after 2 by 0; end")));
}

/// The tokens of each step are brought three steps ahead.
abi::Manifest bringingThreeStepsAhead() {
  abi::Manifest manifest = toyManifest({});
  addBringing(manifest, 3);
  for (abi::TimetableEntry &entry : entriesOf(manifest))
    for (uint32_t turns : {0, 3})
      entry.add_turns(turns);
  bringAhead(manifest, 3);
  return manifest;
}

class OverlappingLoopTest : public TrainingLoopTest {
protected:
  OverlappingLoopTest() : TrainingLoopTest(bringingThreeStepsAhead(), 6) {}
};

struct CommandCounter : Observer {
  void executed(const CommandEvent &event) override { ++counts[std::string(event.list)]; }
  std::map<std::string, int> counts; // by list
};

TEST_F(OverlappingLoopTest, EachStepIsBegunOnceAndNoneBeforeTheStateIsRead) {
  CommandCounter counter;
  executor->observe(&counter);
  first.readsStateAfter = 4;
  EXPECT_EQ(run(), 0);
  executor->observe(nullptr);
  EXPECT_THAT(first.underWay, ElementsAre(true, true, true, false, true, false));
  EXPECT_EQ(counter.counts["bring"], 2 * 6);
  EXPECT_EQ(counter.counts["begin"], 6);
  EXPECT_EQ(counter.counts["turn"], 6);
}

} // namespace
} // namespace dtc::test
