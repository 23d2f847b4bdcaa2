// Every pipeline trains the same model: the command lists of all ranks, each walking its own timetable, against whole
// tensors, in f64, with dropout, clipping and ignored targets. And a stage keeps exactly what its timetable says.
#include "test/e2e/compiled_model.h"
#include "test/timing/timetables/published.h"

#include "runtime/abi/commands.h"
#include "runtime/abi/roles.h"
#include "runtime/abi/timetables.h"
#include "runtime/executor/validate.h"

#include <gmock/gmock.h>

namespace dtc::test {
namespace {

struct Pipeline {
  const char *name, *mesh, *strategy;
};

constexpr Pipeline pipelines[] = {{"pp2", "pp=2", "ddp"},
                                  {"pp4", "pp=4", "ddp"},
                                  {"pp2_tp2", "pp=2,tp=2", "megatron"},
                                  {"dp2_pp2", "dp=2,pp=2", "ddp"},
                                  {"dp2_tp2_pp2", "dp=2,tp=2,pp=2", "megatron"},
                                  {"pp2_tp2_sp", "pp=2,tp=2", "megatron-sp"},
                                  {"dp2_pp2_zero1", "dp=2,pp=2", "zero1"},
                                  {"dp2_pp2_zero2", "dp=2,pp=2", "zero2"},
                                  {"dp2_pp2_zero3", "dp=2,pp=2", "zero3"},
                                  {"pp2_cp2", "pp=2,cp=2", "cp"}};

class Pipelines : public testing::TestWithParam<std::tuple<const char *, Pipeline, const char *>> {};

void PrintTo(const Pipeline &pipeline, std::ostream *out) { *out << pipeline.name; }

std::string testName(const std::tuple<const char *, Pipeline, const char *> &param) {
  std::string name = std::string(std::get<0>(param)) + "_" + std::get<1>(param).name + "_" + std::get<2>(param);
  std::ranges::replace(name, '-', '_');
  return name;
}

TEST_P(Pipelines, CommandListsComputeWhatWholeFunctionsDo) {
  auto [model, pipeline, timetable] = GetParam();
  for (int64_t accumulation : {4, 8}) {
    CompiledModel compiled({.model = model,
                            .mesh = pipeline.mesh,
                            .strategy = pipeline.strategy,
                            .accumulation = accumulation,
                            .symbols = fourLayers(model),
                            .timetable = timetable});
    ASSERT_TRUE(compiled.expectation);
    verify::VerifyReport report = verify::verify(*compiled.expectation, compiled.manifest);
    EXPECT_EQ(report.failure, "") << accumulation;
    EXPECT_GT(report.comparisons.size(), 4u * compiled.manifest.parameters_size());
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Pipelines,
                         testing::Combine(testing::Values("gpt-small", "llama-small"), testing::ValuesIn(pipelines),
                                          testing::Values("naive", "gpipe", "1f1b")),
                         [](const auto &info) { return testName(info.param); });

constexpr Pipeline ofSeveralStages[] = {{"pp2", "pp=2", "ddp"},
                                        {"pp4", "pp=4", "ddp"},
                                        {"pp2_tp2", "pp=2,tp=2", "megatron"},
                                        {"dp2_pp2", "dp=2,pp=2", "ddp"},
                                        {"dp2_tp2_pp2", "dp=2,tp=2,pp=2", "megatron"},
                                        {"pp2_tp2_sp", "pp=2,tp=2", "megatron-sp"},
                                        {"dp2_pp2_zero1", "dp=2,pp=2", "zero1"},
                                        {"dp2_pp2_zero2", "dp=2,pp=2", "zero2"},
                                        {"dp2_pp2_zero3", "dp=2,pp=2", "zero3"}};

/// Enough layers for two stages a rank, and enough micro-batches for every timetable.
CompiledModel withTwoLayersARank(const char *model, const Pipeline &pipeline, const char *timetable,
                                 const Choices &choices = {}) {
  int64_t ranks = std::string_view(pipeline.mesh) == "pp=4" ? 4 : 2;
  std::map<std::string, int64_t> symbols = smallSymbols(model);
  symbols["layers"] = 2 * ranks;
  return CompiledModel({.model = model,
                        .mesh = pipeline.mesh,
                        .strategy = pipeline.strategy,
                        .accumulation = 2 * ranks,
                        .symbols = symbols,
                        .timetable = timetable,
                        .choices = choices});
}

class LaterTimetables : public testing::TestWithParam<std::tuple<const char *, Pipeline, const char *>> {};

// Ranks with several stages, as a loop and as a V, and backward passes in two.
TEST_P(LaterTimetables, ComputeWhatWholeFunctionsDo) {
  auto [model, pipeline, timetable] = GetParam();
  CompiledModel compiled = withTwoLayersARank(model, pipeline, timetable);
  ASSERT_TRUE(compiled.expectation);
  verify::VerifyReport report = verify::verify(*compiled.expectation, compiled.manifest);
  EXPECT_EQ(report.failure, "");
  EXPECT_GT(report.comparisons.size(), 4u * compiled.manifest.parameters_size());
}

INSTANTIATE_TEST_SUITE_P(Models, LaterTimetables,
                         testing::Combine(testing::Values("gpt-small", "llama-small"),
                                          testing::ValuesIn(ofSeveralStages),
                                          testing::Values("interleaved", "zb-h1", "zb-h2", "zbv", "v-half", "v-min",
                                                          "dualpipev")),
                         [](const auto &info) { return testName(info.param); });

/// How many elements stages send in all lists.
int64_t sentElements(const abi::Manifest &manifest) {
  int64_t elements = 0;
  for (const abi::CommandList &list : manifest.lists())
    for (const abi::Command &command : list.commands())
      elements += command.has_send() ? command.send().elements() : 0;
  return elements;
}

// What ranks over tp have in common crosses in parts: a stage before sends one, the next gathers them. Also where ranks
// have several stages, as a loop and as a V, where backward passes are in two, and where layers are done in parts.
TEST(SlicedCrossings, ComputeWhatWholeFunctionsDo) {
  constexpr Pipeline layouts[] = {{"pp2_tp2", "pp=2,tp=2", "megatron"},
                                  {"dp2_tp2_pp2", "dp=2,tp=2,pp=2", "megatron"},
                                  {"pp2_tp2_zero3", "dp=2,pp=2,tp=2", "megatron+zero3"}};
  for (const char *model : {"gpt-small", "llama-small"})
    for (const Pipeline &layout : layouts)
      for (const char *timetable : {"1f1b", "interleaved", "zb-h1", "zbv"}) {
        ModelSetup setup{.model = model,
                         .mesh = layout.mesh,
                         .strategy = layout.strategy,
                         .accumulation = 4,
                         .symbols = fourLayers(model),
                         .timetable = timetable};
        if (std::string_view(timetable) == "1f1b")
          setup.choices.split = {{"*", 2, ""}};
        setup.choices.crossing = {"sliced"};
        CompiledModel sliced(setup);
        ASSERT_TRUE(sliced.expectation) << model << " " << layout.name << " " << timetable;
        verify::VerifyReport report = verify::verify(*sliced.expectation, sliced.manifest);
        EXPECT_EQ(report.failure, "") << model << " " << layout.name << " " << timetable;
        EXPECT_GT(report.comparisons.size(), 4u * sliced.manifest.parameters_size());
        for (const abi::Role &role : sliced.manifest.roles())
          EXPECT_NO_THROW(validateTimetables(sliced.manifest, role));
        setup.choices.crossing = {"whole"};
        setup.expect = false;
        EXPECT_EQ(2 * sentElements(sliced.manifest), sentElements(CompiledModel(setup).manifest));
      }
}

class OverlappingSteps : public testing::TestWithParam<std::tuple<const char *, Pipeline, const char *>> {};

// Clipping takes effect, so only an update that is redone is right.
TEST_P(OverlappingSteps, AreRedoneAsWholeFunctionsDoThem) {
  auto [model, pipeline, timetable] = GetParam();
  Choices choices;
  choices.overlapSteps = true;
  CompiledModel compiled = withTwoLayersARank(model, pipeline, timetable, choices);
  ASSERT_TRUE(compiled.expectation);
  verify::VerifyReport report = verify::verify(*compiled.expectation, compiled.manifest);
  EXPECT_EQ(report.failure, "");
  EXPECT_GT(report.comparisons.size(), 4u * compiled.manifest.parameters_size());
  EXPECT_EQ(abi::stepsAhead(compiled.manifest, abi::stepTimetable), 1);
  for (const abi::Role &role : compiled.manifest.roles()) {
    EXPECT_TRUE(abi::mayRedo(role));
    EXPECT_EQ(memoryOf(role, "state before an early update"),
              memoryOf(role, "parameters") + memoryOf(role, "optimizer state"));
  }
}

INSTANTIATE_TEST_SUITE_P(Models, OverlappingSteps,
                         testing::Combine(testing::Values("llama-small"), testing::ValuesIn(ofSeveralStages),
                                          testing::Values("zb-h2", "zbv")),
                         [](const auto &info) { return testName(info.param); });

/// Rows of a CSV file, for two ranks with a stage each and four micro-batches.
struct OwnTimetable {
  const char *rows;
  bool isInOrder; ///< of gradients and losses
};

constexpr OwnTimetable ownTimetables[] = {
    // Gradients of weights in any order: the first ones to be added, and the last ones, are of any micro-batch.
    {"0F0,0F1,0F2,0F3,0I0,0I1,0I2,0I3,0W3,0W1,0W0,0W2\n1F0,1I0,1F1,1I1,1W1,1W0,1F2,1I2,1F3,1I3,1W3,1W2\n", false},
    // Forward passes and whole backward passes.
    {"0F2,0F0,0F3,0F1,0B2,0B3,0B0,0B1\n1F2,1B2,1F0,1F3,1B3,1B0,1F1,1B1\n", false},
    // Losses, and the gradients of one of the two stages.
    {"0F1,0F0,0F2,0F3,0B1,0B0,0B2,0B3\n1F1,1F0,1F2,1F3,1I1,1I0,1W0,1W1,1B2,1B3\n", false},
    {"0F0,0F1,0F2,0F3,0B0,0B1,0B2,0B3\n1F1,1F0,1F3,1F2,1B0,1B1,1B2,1B3\n", false},
    // Forward passes of the first stage add nothing.
    {"0F1,0F0,0F3,0F2,0B0,0B1,0B2,0B3\n1F0,1B0,1F1,1B1,1F2,1B2,1F3,1B3\n", true}};

class OwnTimetables : public testing::TestWithParam<OwnTimetable> {};

void PrintTo(const OwnTimetable &timetable, std::ostream *out) { *out << timetable.rows; }

TEST_P(OwnTimetables, MayTakeMicroBatchesInAnyOrder) {
  for (auto [model, mesh, strategy, type] : {std::tuple("gpt-small", "pp=2", "ddp", "f32"),
                                             {"llama-small", "pp=2", "ddp", "f32"},
                                             {"gpt-small", "dp=2,pp=2", "zero3", "f32"},
                                             {"gpt-small", "dp=2,pp=2", "ddp", "bf16"}}) {
    CompiledModel compiled({.model = model,
                            .mesh = mesh,
                            .strategy = strategy,
                            .accumulation = 4,
                            .symbols = smallSymbols(model),
                            .compute = type,
                            .gradients = type,
                            .timetable = GetParam().rows});
    ASSERT_TRUE(compiled.expectation) << model << " " << mesh << " " << type;
    for (const abi::Role &role : compiled.manifest.roles()) {
      EXPECT_EQ(abi::timetableOf(role, abi::stepTimetable).sums_by_timetable(), !GetParam().isInOrder);
      EXPECT_NO_THROW(validateTimetables(compiled.manifest, role));
    }
    verify::VerifyReport report = verify::verify(*compiled.expectation, compiled.manifest);
    EXPECT_EQ(report.failure, "") << model << " " << mesh << " " << type;
    EXPECT_GT(report.comparisons.size(), 4u * compiled.manifest.parameters_size());
  }
}

INSTANTIATE_TEST_SUITE_P(Files, OwnTimetables, testing::ValuesIn(ownTimetables));

// PyTorch's interleaved zero bubble, as its file has it: no timetable of ours is the same.
TEST(PublishedTimetables, ComputeWhatWholeFunctionsDo) {
  for (const char *model : {"gpt-small", "llama-small"}) {
    CompiledModel compiled({.model = model,
                            .mesh = "pp=2",
                            .strategy = "ddp",
                            .accumulation = 8,
                            .symbols = fourLayers(model),
                            .timetable = interleavedZeroBubbleOfPyTorch()});
    ASSERT_TRUE(compiled.expectation) << model;
    for (const abi::Role &role : compiled.manifest.roles()) {
      EXPECT_FALSE(abi::timetableOf(role, abi::stepTimetable).sums_by_timetable()) << "it adds in order";
      EXPECT_NO_THROW(validateTimetables(compiled.manifest, role));
    }
    verify::VerifyReport report = verify::verify(*compiled.expectation, compiled.manifest);
    EXPECT_EQ(report.failure, "") << model;
    EXPECT_GT(report.comparisons.size(), 4u * compiled.manifest.parameters_size());
  }
}

// Conversions change nothing in f64: gradients in 16 bits and copies of parameters are partitioned, too.
TEST(NarrowPipelines, ComputeWhatWholeFunctionsDo) {
  for (const char *model : {"gpt-small", "llama-small"})
    for (auto [compute, gradients] : {std::pair("bf16", "bf16"), {"f16", "f32"}}) {
      CompiledModel compiled({.model = model,
                              .mesh = "dp=2,pp=2",
                              .strategy = "ddp",
                              .accumulation = 3,
                              .symbols = fourLayers(model),
                              .compute = compute,
                              .gradients = gradients,
                              .copies = true});
      ASSERT_TRUE(compiled.expectation);
      EXPECT_EQ(verify::verify(*compiled.expectation, compiled.manifest).failure, "") << model << " " << compute;
    }
}

// A step of one micro-batch is the shortest pipeline.
TEST(ShortPipelines, ComputeWhatWholeFunctionsDo) {
  for (int64_t accumulation : {1, 2}) {
    CompiledModel compiled({.model = "gpt-small",
                            .mesh = "pp=4",
                            .strategy = "ddp",
                            .accumulation = accumulation,
                            .symbols = fourLayers("gpt-small")});
    ASSERT_TRUE(compiled.expectation);
    EXPECT_EQ(verify::verify(*compiled.expectation, compiled.manifest).failure, "") << accumulation;
  }
}

// Of many stages most are equal; of these five the second and the fourth. The third meets its neighbours on other
// channels. The position of a rank's norms among all is its own.
TEST(Stages, ThatAreEqualShareLists) {
  CompiledModel compiled({.model = "gpt-small",
                          .mesh = "pp=5",
                          .strategy = "ddp",
                          .accumulation = 8,
                          .symbols =
                              [] {
                                std::map<std::string, int64_t> symbols = smallSymbols("gpt-small");
                                symbols["layers"] = 5;
                                return symbols;
                              }(),
                          .expect = false,
                          .timetable = "gpipe"});
  ASSERT_TRUE(compiled.succeeded);
  auto listsOf = [&](int stage) {
    std::set<std::string> lists;
    for (const abi::Timetable &timetable : compiled.manifest.roles(stage).timetables())
      for (const abi::TimetableEntry &entry : timetable.period())
        if (!entry.list().starts_with("micro_last."))
          lists.insert(entry.list());
    return lists;
  };
  EXPECT_EQ(listsOf(1), listsOf(3));
  EXPECT_NE(listsOf(0), listsOf(2));
  EXPECT_NE(listsOf(1), listsOf(2));
}

// On a channel, a rank only sends to one side or only receives from it: what it receives early blocks neither what it
// sends nor what comes from the other side. In a loop the last rank and the first are neighbours, too. In a V the
// activations of one stage and the gradients of the other go to the same side.
TEST(Stages, HaveAChannelForEachSideAndDirection) {
  for (auto [timetable, layers, atTheEnds] : {std::tuple("1f1b", 4, 2U), {"interleaved", 8, 4U}, {"zbv", 8, 2U}}) {
    std::map<std::string, int64_t> symbols = smallSymbols("gpt-small");
    symbols["layers"] = layers;
    CompiledModel compiled({.model = "gpt-small",
                            .mesh = "pp=4",
                            .strategy = "ddp",
                            .accumulation = 8,
                            .symbols = symbols,
                            .expect = false,
                            .timetable = timetable});
    ASSERT_TRUE(compiled.succeeded) << timetable;
    for (int rank = 0; rank < 4; ++rank) {
      SCOPED_TRACE(std::string(timetable) + ", rank " + std::to_string(rank));
      std::set<std::string> lists;
      for (const abi::Timetable &each : compiled.manifest.roles(rank).timetables())
        for (const abi::TimetableEntry &entry : each.period())
          lists.insert(entry.list());
      std::map<uint32_t, std::set<std::pair<bool, int64_t>>> onChannel; // whether it sends, and to which side
      for (const abi::CommandList &list : compiled.manifest.lists())
        for (const abi::Command &command : list.commands())
          if (lists.contains(list.name()) && (command.has_send() || command.has_recv())) {
            const abi::Transfer &transfer = abi::transferOf(command);
            onChannel[compiled.manifest.groups(int(transfer.group())).channel()].emplace(command.has_send(),
                                                                                         transfer.shift());
          }
      EXPECT_EQ(onChannel.size(), rank == 0 || rank == 3 ? atTheEnds : 4U);
      for (const auto &[channel, uses] : onChannel)
        EXPECT_EQ(uses.size(), 1) << "channel " << channel;
    }
  }
}

// Ranks of a stage are those with its number along pp, at whatever position that axis is.
TEST(Stages, ArePlayedByTheirRanks) {
  for (auto [mesh, before, behind] : {std::tuple("dp=2,pp=2,tp=2", 2, 2), {"pp=2,dp=4", 1, 4}, {"dp=3,pp=2", 3, 1}}) {
    CompiledModel compiled({.model = "gpt-small",
                            .mesh = mesh,
                            .strategy = "megatron",
                            .accumulation = 2,
                            .batch = 12,
                            .symbols = fourLayers("gpt-small"),
                            .expect = false});
    ASSERT_TRUE(compiled.succeeded) << mesh;
    for (int rank = 0; rank < before * 2 * behind; ++rank)
      EXPECT_EQ(abi::roleIndexOf(compiled.manifest, rank), rank / behind % 2) << mesh << " " << rank;
  }
}

} // namespace
} // namespace dtc::test
