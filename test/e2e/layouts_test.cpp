// Every layout trains the same model: partitioned functions and compiled command lists of all ranks against whole
// tensors, in f64, with dropout, clipping and ignored targets.
#include "test/e2e/compiled_model.h"
#include "test/runtime/temporary_directory.h"
#include "tools/verify/PartitionedSubject.h"
#include "tools/verify/Shrunk.h"

#include <gmock/gmock.h>

namespace dtc::test {
namespace {

constexpr Layout layouts[] = {{"dp4", "dp=4", "ddp", 1},
                              {"tp4", "tp=4", "megatron", 1},
                              {"dp2_tp2", "dp=2,tp=2", "megatron", 1},
                              {"dp2_tp2_sp", "dp=2,tp=2", "megatron-sp", 1},
                              {"dp2_tp2_accumulating", "dp=2,tp=2", "megatron", 2},
                              {"dp2_tp2_sp_accumulating", "dp=2,tp=2", "megatron-sp", 2}};

// State, gradients or stored parameters split over data-parallel ranks; in the last ones, sizes do not divide.
constexpr Layout shardedLayouts[] = {{"zero1_accumulating", "dp=4", "zero1", 2},
                                     {"zero2_tp2_accumulating", "dp=2,tp=2", "zero2", 2},
                                     {"zero3_accumulating", "dp=4", "zero3", 2},
                                     {"zero3_tp2_sp", "dp=2,tp=2", "megatron-sp+zero3", 1},
                                     {"hsdp", "dp=4", "hsdp:2", 1},
                                     {"hsdp_tp2", "dp=4,tp=2", "hsdp:2", 2},
                                     {"zero3_dp4_tp3", "dp=4,tp=3", "zero3", 1},
                                     {"zero1_dp2_tp3", "dp=2,tp=3", "zero1", 3}};

// The sequence split, alone and together with everything else.
constexpr Layout contextLayouts[] = {{"cp4", "cp=4", "cp", 1},
                                     {"dp2_cp2_accumulating", "dp=2,cp=2", "cp", 2},
                                     {"cp2_tp2", "cp=2,tp=2", "cp", 1},
                                     {"tp2_cp2_sp_accumulating", "tp=2,cp=2", "megatron-sp+cp", 2},
                                     {"zero1_dp2_cp2", "dp=2,cp=2", "zero1+cp", 2},
                                     {"zero3_dp2_cp2_tp2", "dp=2,cp=2,tp=2", "zero3+cp", 1},
                                     {"zero3_cp4", "cp=4", "zero3+cp", 2},
                                     {"hsdp_dp4_cp2", "dp=4,cp=2", "hsdp:2+cp", 1}};

// Heads, sequence, embedding and vocabulary that do not divide, more ranks than heads, axes in the other order.
constexpr Layout oddLayouts[] = {{"dp1", "dp=1", "ddp", 1},
                                 {"tp3", "tp=3", "megatron", 1},
                                 {"tp5_sp", "tp=5", "megatron-sp", 1},
                                 {"tp2_dp2_sp", "tp=2,dp=2", "megatron-sp", 1},
                                 {"dp2_tp6_sp_accumulating", "dp=2,tp=6", "megatron-sp", 3},
                                 {"dp2_tp7", "dp=2,tp=7", "megatron", 1}};

class Layouts : public testing::TestWithParam<std::tuple<const char *, Layout>> {
protected:
  ModelSetup setup() const {
    auto [model, layout] = GetParam();
    return smallSetup(model, layout);
  }
};

TEST_P(Layouts, PartitionedFunctionsComputeWhatWholeOnesDo) {
  CompiledModel compiled(setup());
  ASSERT_TRUE(compiled.expectation);
  verify::PartitionedSubject subject(*compiled.partitioned);
  EXPECT_EQ(verify::verify(*compiled.expectation, subject).failure, "");
}

TEST_P(Layouts, CommandListsComputeWhatWholeFunctionsDo) {
  CompiledModel compiled(setup());
  ASSERT_TRUE(compiled.expectation);
  verify::VerifyReport report = verify::verify(*compiled.expectation, compiled.manifest);
  EXPECT_EQ(report.failure, "");
  EXPECT_GT(report.comparisons.size(), 4u * compiled.manifest.parameters_size());
}

TEST(Optimizers, MomentumIsUpdatedUnderEveryLayout) {
  for (const Layout &layout : layouts) {
    CompiledModel compiled(smallSetup("gpt-small", layout, {.optimizer = "sgd"}));
    ASSERT_TRUE(compiled.expectation) << layout.name;
    EXPECT_EQ(verify::verify(*compiled.expectation, compiled.manifest).failure, "") << layout.name;
  }
}

/// Conversions change nothing in f64, so 16 bits must compute the same, whichever tensors are narrow.
class Mixed : public testing::TestWithParam<std::tuple<const char *, Layout>> {};

TEST_P(Mixed, CommandListsComputeWhatWholeFunctionsDo) {
  auto [model, layout] = GetParam();
  for (auto [compute, gradients] : {std::pair("bf16", "f32"), {"bf16", "bf16"}, {"f16", "f16"}}) {
    CompiledModel compiled(smallSetup(model, layout, {.compute = compute, .gradients = gradients}));
    ASSERT_TRUE(compiled.expectation);
    EXPECT_EQ(verify::verify(*compiled.expectation, compiled.manifest).failure, "") << compute << " " << gradients;
  }
}

/// Inputs of matrix products are gathered in 16 bits; what is read in f32, such as norms and rows of the embedding, is
/// gathered in f32. Gradients travel in the type that is set.
TEST(MixedCollectives, MoveTheNarrowForm) {
  for (const std::string gradients : {"f32", "bf16"}) {
    CompiledModel compiled({.model = "gpt-small",
                            .mesh = "dp=4",
                            .strategy = "zero3",
                            .expect = false,
                            .compute = "bf16",
                            .gradients = gradients});
    ASSERT_TRUE(compiled.succeeded);
    size_t matrices = 0, scattered = 0;
    for (const abi::CommandList &list : compiled.manifest.lists())
      for (const abi::Command &command : list.commands()) {
        const abi::Collective &collective = command.start();
        if (!command.has_start() || list.name() != "micro_last")
          continue;
        auto names = [&](const char *part) { return collective.value().find(part) != std::string::npos; };
        if (collective.kind() == abi::Collective::ALL_GATHER && names("c_") && names("weight")) {
          EXPECT_EQ(collective.type(), abi::BF16) << collective.value();
          ++matrices;
        } else if (collective.kind() == abi::Collective::ALL_GATHER && names("ln_")) {
          EXPECT_EQ(collective.type(), abi::F32) << collective.value();
        } else if (collective.kind() == abi::Collective::REDUCE_SCATTER) {
          EXPECT_EQ(collective.type(), gradients == "f32" ? abi::F32 : abi::BF16) << collective.value();
          ++scattered;
        }
      }
    EXPECT_GE(matrices, 4u * 4u * 2u); // four a layer, forward and backward
    EXPECT_GE(scattered, 4u * 4u);
  }
}

// Both have two rows on each rank, but different ones: verify fills them as the runtime's step does.
TEST(PlacedInputs, EachIsCutByItsOwnPlacement) {
  TemporaryDirectory directory;
  std::string strategy = directory.write("strategy.toml", "[inputs]\n"
                                                          "tokens = { batch = [\"dp\"] }\n"
                                                          "targets = { batch = [\"tp\"] }\n");
  for (const char *model : {"gpt-small", "llama-small"}) {
    CompiledModel compiled({.model = model, .mesh = "dp=2,tp=2", .strategy = strategy, .symbols = smallSymbols(model)});
    ASSERT_TRUE(compiled.expectation) << model;
    EXPECT_EQ(verify::verify(*compiled.expectation, compiled.manifest).failure, "") << model;
  }
}

/// Rows of embeddings that are gathered, whatever the cost, instead of reducing the whole gradient.
class GatheredRows : public Layouts {
protected:
  ModelSetup setupWith(const char *how) const {
    ModelSetup own = setup();
    own.choices.rows = {{"*", how, ""}};
    return own;
  }
};

TEST_P(GatheredRows, CommandListsComputeWhatWholeFunctionsDo) {
  CompiledModel compiled(setupWith("gathered"));
  ASSERT_TRUE(compiled.expectation);
  EXPECT_EQ(verify::verify(*compiled.expectation, compiled.manifest).failure, "");
  ModelSetup reduced = setupWith("reduced");
  reduced.expect = false;
  EXPECT_NE(verify::compareCollectives(CompiledModel(reduced).manifest, compiled.manifest), "");
}

/// A vocabulary of 13 over 3 ranks, and an embedding of 8.
TEST(GatheredRowsOfPieces, AreFoundWhereTheTableDoesNotDivide) {
  for (const char *strategy : {"zero1", "zero3"}) {
    CompiledModel compiled({.model = "gpt-small",
                            .mesh = "dp=3",
                            .strategy = strategy,
                            .batch = 6,
                            .symbols = smallSymbols("gpt-small"),
                            .choices = {.rows = {{"*", "gathered", ""}}}});
    ASSERT_TRUE(compiled.expectation);
    EXPECT_EQ(verify::verify(*compiled.expectation, compiled.manifest).failure, "") << strategy;
  }
}

TEST_P(GatheredRows, InSixteenBitsToo) {
  for (auto [compute, gradients] : {std::pair("bf16", "f32"), {"bf16", "bf16"}}) {
    ModelSetup own = setupWith("gathered");
    own.compute = compute;
    own.gradients = gradients;
    CompiledModel compiled(own);
    ASSERT_TRUE(compiled.expectation);
    EXPECT_EQ(verify::verify(*compiled.expectation, compiled.manifest).failure, "") << compute << " " << gradients;
  }
}

/// The model of examples/gpt-small as it is: 4 layers of width 256.
class FullSize : public testing::TestWithParam<Layout> {};

TEST_P(FullSize, CommandListsComputeWhatWholeFunctionsDo) {
  ModelSetup setup = smallSetup("gpt-small", GetParam());
  setup.symbols.clear();
  CompiledModel compiled(setup);
  ASSERT_TRUE(compiled.expectation);
  EXPECT_EQ(verify::verify(*compiled.expectation, compiled.manifest).failure, "");
}

// What verify proves about a shrunk model holds for the full one: GPT-2 with 124M parameters.
TEST(ShrunkModels, RunTheCollectivesOfTheFullOnes) {
  for (const char *strategy : {"ddp", "megatron", "megatron-sp", "zero3"}) {
    const char *mesh = std::string(strategy) == "ddp" ? "dp=4" : "dp=2,tp=2";
    ModelSetup setup = {.model = "gpt2", .mesh = mesh, .strategy = strategy, .sequence = 64, .expect = false};
    CompiledModel full(setup);
    setup.choices = *parseChoices(full.manifest.choices(), "choices", {}, [](const llvm::Twine &) {});
    setup.sequence = 8;
    setup.symbols = smallSymbols("gpt2");
    setup.symbols.erase("layers");
    CompiledModel shrunk(setup);
    ASSERT_TRUE(full.succeeded && shrunk.succeeded) << strategy;
    EXPECT_EQ(verify::compareCollectives(shrunk.manifest, full.manifest), "") << strategy;
    std::vector<int64_t> layers = verify::layersToKeep(full.manifest);
    EXPECT_THAT(layers, testing::ElementsAre(3)) << strategy << ": the first, one in between, the last";
    setup.symbols["layers"] = layers.front();
    CompiledModel few(setup);
    EXPECT_EQ(verify::compareCollectives(few.manifest, full.manifest), "") << strategy;
    setup.symbols["layers"] = 2;
    EXPECT_NE(verify::compareCollectives(CompiledModel(setup).manifest, full.manifest), "") << strategy;
    setup.symbols.erase("layers");
    // And a program of another strategy is not accepted as such.
    setup.mesh = "dp=2,tp=2";
    setup.strategy = std::string(strategy) == "megatron" ? "megatron-sp" : "megatron";
    EXPECT_NE(verify::compareCollectives(CompiledModel(setup).manifest, full.manifest), "") << strategy;
  }
}

INSTANTIATE_TEST_SUITE_P(Gpt, FullSize, testing::ValuesIn(layouts),
                         [](const auto &info) { return std::string(info.param.name); });

constexpr const char *models[] = {"gpt-small", "llama-small"};

// Each rank has the whole sum, or some rows or columns of it; of one micro-batch, or the last of several.
constexpr Layout rowLayouts[] = {{"dp4", "dp=4", "ddp", 1},
                                 {"dp2_tp2_accumulating", "dp=2,tp=2", "megatron", 2},
                                 {"dp2_tp2_sp", "dp=2,tp=2", "megatron-sp", 1},
                                 {"dp2_accumulating_often", "dp=2", "ddp", 3},
                                 {"zero1", "dp=4", "zero1", 1},
                                 {"zero1_accumulating", "dp=4", "zero1", 2},
                                 {"zero1_dp2_tp3", "dp=2,tp=3", "zero1", 3},
                                 {"zero2_tp2_accumulating", "dp=2,tp=2", "zero2", 2},
                                 {"zero3", "dp=2", "zero3", 1},
                                 {"zero3_dp2_cp2", "dp=2,cp=2", "zero3+cp", 1},
                                 {"hsdp", "dp=4", "hsdp:2", 1},
                                 {"cp2", "cp=2", "cp", 2}};
INSTANTIATE_TEST_SUITE_P(Models, GatheredRows,
                         testing::Combine(testing::ValuesIn(models), testing::ValuesIn(rowLayouts)), nameOf);

INSTANTIATE_TEST_SUITE_P(Even, Layouts, testing::Combine(testing::ValuesIn(models), testing::ValuesIn(layouts)),
                         nameOf);
INSTANTIATE_TEST_SUITE_P(Sharded, Layouts,
                         testing::Combine(testing::ValuesIn(models), testing::ValuesIn(shardedLayouts)), nameOf);
INSTANTIATE_TEST_SUITE_P(Context, Layouts,
                         testing::Combine(testing::ValuesIn(models), testing::ValuesIn(contextLayouts)), nameOf);
INSTANTIATE_TEST_SUITE_P(
    Models, Mixed,
    testing::Combine(testing::ValuesIn(models),
                     testing::Values(Layout{"dp1", "dp=1", "ddp", 1}, Layout{"dp4_accumulating", "dp=4", "ddp", 2},
                                     Layout{"dp2_tp2_sp", "dp=2,tp=2", "megatron-sp", 1},
                                     Layout{"tp3", "tp=3", "megatron", 1}, Layout{"zero2", "dp=4", "zero2", 1},
                                     Layout{"zero3_dp2_cp2", "dp=2,cp=2", "zero3+cp", 2},
                                     Layout{"zero3_dp4_tp3", "dp=4,tp=3", "zero3", 2})),
    nameOf);
INSTANTIATE_TEST_SUITE_P(Odd, Layouts, testing::Combine(testing::ValuesIn(models), testing::ValuesIn(oddLayouts)),
                         nameOf);

} // namespace
} // namespace dtc::test
