// How what crosses a cut travels: by the costs of links, as chosen, and replayed.
#include "test/passes/pipelines/compilation.h"

#include "runtime/abi/commands.h"
#include "timing/cluster/cluster.h"

#include "mlir/IR/Diagnostics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

using namespace mlir;
using testing::HasSubstr;
using testing::Not;

namespace dtc::test {
namespace {

/// Two nodes of two devices each. Bandwidths in bytes a second.
timing::Cluster twoNodes(double within, double between) {
  timing::Cluster cluster = timing::parseCluster(R"(
name: "two"
devices { name: "a" peaks { type: "f32" flops: 1e11 } memory_bandwidth: 1e10 memory_bytes: 1000000000 }
nodes { device: "a" devices: 2 count: 2 }
levels { name: "inner" units: 2 latency: 1e-6 bandwidth: 1e9 }
levels { name: "network" latency: 1e-6 bandwidth: 1e9 }
)",
                                                 "test");
  cluster.mutable_levels(0)->set_bandwidth(within);
  cluster.mutable_levels(1)->set_bandwidth(between);
  return cluster;
}

const Case twoStagesOfTwo = {"two_stages", "gpt-small", "pp=2,tp=2", "megatron", 4};

/// Elements of what stages send: of the smallest and of the largest message.
std::pair<int64_t, int64_t> sentElements(const abi::Manifest &manifest) {
  std::pair<int64_t, int64_t> elements{std::numeric_limits<int64_t>::max(), 0};
  for (const abi::CommandList &list : manifest.lists())
    for (const abi::Command &command : list.commands())
      if (command.has_send()) {
        elements.first = std::min(elements.first, command.send().elements());
        elements.second = std::max(elements.second, command.send().elements());
      }
  return elements;
}

/// Gathers of what has crossed a cut.
int countGathers(const abi::Manifest &manifest) {
  int count = 0;
  for (const abi::CommandList &list : manifest.lists())
    for (const abi::Command &command : list.commands())
      count += command.has_start() && command.start().kind() == abi::Collective::ALL_GATHER &&
               StringRef(command.start().reason()).contains("sent one part over the cut");
  return count;
}

// Four samples of eight tokens and eight features are 256 elements: a quarter of a millisecond at 4 MB/s, and next to
// nothing at 1 TB/s.
TEST(Crossing, IsSlicedWhereLinksBetweenStagesAreSlower) {
  for (auto [within, between, way] : {std::tuple(1e12, 4e6, "sliced"), {1e12, 1e12, "whole"}, {4e6, 1e12, "whole"}}) {
    Compilation compilation(twoStagesOfTwo);
    std::unique_ptr<Planner> planner = compilation.makePlanner();
    timing::Layout layout(twoNodes(within, between), planner->mesh());
    compilation.options.layout = &layout;
    FailureOr<CompiledProgram> program = planner->compile({}, /*generateCode=*/false);
    ASSERT_TRUE(succeeded(program));
    std::string said = std::string("crossing = '") + way + "'\n";
    EXPECT_THAT(program->manifest.choices(), HasSubstr(said)) << within << " " << between;
    bool isSliced = StringRef(way) == "sliced";
    int64_t elements = isSliced ? 128 : 256;
    EXPECT_EQ(sentElements(program->manifest), std::pair(elements, elements));
    EXPECT_EQ(countGathers(program->manifest) > 0, isSliced);
    // What was decided is replayed where no link is known.
    compilation.options.layout = nullptr;
    std::optional<Choices> again =
        parseChoices(program->manifest.choices(), "stored", {}, [](const Twine &text) { FAIL() << text.str(); });
    ASSERT_TRUE(again);
    FailureOr<CompiledProgram> replayed = planner->compile(*again, /*generateCode=*/false);
    ASSERT_TRUE(succeeded(replayed));
    EXPECT_EQ(replayed->manifest.choices(), program->manifest.choices());
    EXPECT_EQ(sentElements(replayed->manifest), std::pair(elements, elements));
    EXPECT_EQ(countGathers(replayed->manifest), countGathers(program->manifest));
  }
}

TEST(Crossing, IsWholeWithoutCostsUnlessAChoiceSaysSo) {
  Compilation compilation(twoStagesOfTwo);
  std::unique_ptr<Planner> planner = compilation.makePlanner();
  FailureOr<CompiledProgram> open = planner->compile({}, /*generateCode=*/false);
  Choices choices;
  choices.crossing = {"sliced"};
  FailureOr<CompiledProgram> sliced = planner->compile(choices, /*generateCode=*/false);
  ASSERT_TRUE(succeeded(open) && succeeded(sliced));
  EXPECT_THAT(open->manifest.choices(), HasSubstr("crossing = 'whole'\n"));
  EXPECT_EQ(countGathers(open->manifest), 0);
  EXPECT_THAT(sliced->manifest.choices(), HasSubstr("crossing = 'sliced'\n"));
  EXPECT_EQ(sentElements(sliced->manifest), std::pair(int64_t(128), int64_t(128)));
}

TEST(Crossing, IsAsChosenWhereStepsOverlap) {
  Compilation compilation(Case{"pipedream", "llama-small", "pp=2,tp=2", "megatron"});
  compilation.options.what.asynchronous = true;
  compilation.options.what.clipNorm = 0;
  Choices choices;
  choices.timetable = "pipedream";
  choices.crossing = {"sliced"};
  FailureOr<CompiledProgram> program = compilation.makePlanner()->compile(choices, /*generateCode=*/false);
  ASSERT_TRUE(succeeded(program));
  EXPECT_THAT(program->manifest.choices(), HasSubstr("crossing = 'sliced'\n"));
  EXPECT_GT(countGathers(program->manifest), 0);
}

// With sequence parallelism ranks over tp have nothing in common, and without tp there are none: no choice is stored.
TEST(Crossing, IsNoChoiceWhereNothingCanBeSliced) {
  for (const Case &setup : {Case{"sequence", "gpt-small", "pp=2,tp=2", "megatron-sp", 4},
                            Case{"data", "gpt-small", "dp=2,pp=2", "ddp", 4}}) {
    Compilation compilation(setup);
    FailureOr<CompiledProgram> program = compilation.makePlanner()->compile({}, /*generateCode=*/false);
    ASSERT_TRUE(succeeded(program));
    EXPECT_THAT(program->manifest.choices(), Not(HasSubstr("crossing"))) << setup.name;
  }
}

TEST(Crossing, IsSaidForEachCutOrOnceForAll) {
  Compilation compilation(twoStagesOfTwo);
  std::unique_ptr<Planner> planner = compilation.makePlanner();
  Choices choices;
  choices.crossing = {"sliced", "whole"};
  std::string problem;
  ScopedDiagnosticHandler keep(planner->context(), [&](Diagnostic &diagnostic) {
    problem += diagnostic.str();
    return success();
  });
  EXPECT_TRUE(failed(planner->plan(choices)));
  EXPECT_THAT(problem, HasSubstr("choices: crossing says how what crosses each of 2 cuts travels, and a pipeline of 2 "
                                 "stages has 1; say it for each of them, or once for all"));
}

} // namespace
} // namespace dtc::test
