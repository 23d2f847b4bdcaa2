// Every layout trains the same model: partitioned functions and compiled command lists of all ranks against whole
// tensors, in f64, with dropout, clipping and ignored targets.
#include "test/e2e/compiled_model.h"
#include "tools/verify/PartitionedSubject.h"

#include <algorithm>

namespace dtc::test {
namespace {

struct Layout {
  const char *name, *mesh, *strategy;
  int64_t accumulation;
};

void PrintTo(const Layout &layout, std::ostream *out) { *out << layout.name; }

constexpr Layout layouts[] = {{"dp4", "dp=4", "ddp", 1},
                              {"tp4", "tp=4", "megatron", 1},
                              {"dp2_tp2", "dp=2,tp=2", "megatron", 1},
                              {"dp2_tp2_sp", "dp=2,tp=2", "megatron-sp", 1},
                              {"dp2_tp2_accumulating", "dp=2,tp=2", "megatron", 2},
                              {"dp2_tp2_sp_accumulating", "dp=2,tp=2", "megatron-sp", 2}};

class Layouts : public testing::TestWithParam<std::tuple<const char *, Layout>> {
protected:
  ModelSetup setup() const {
    auto [model, layout] = GetParam();
    return {.model = model,
            .mesh = layout.mesh,
            .strategy = layout.strategy,
            .accumulation = layout.accumulation,
            .symbols = smallSymbols(model)};
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

/// The model of examples/gpt-small as it is: 4 layers of width 256.
class FullSize : public testing::TestWithParam<Layout> {};

TEST_P(FullSize, CommandListsComputeWhatWholeFunctionsDo) {
  const Layout &layout = GetParam();
  CompiledModel compiled({.model = "gpt-small",
                          .mesh = layout.mesh,
                          .strategy = layout.strategy,
                          .accumulation = layout.accumulation,
                          .batch = 4,
                          .sequence = 8});
  ASSERT_TRUE(compiled.expectation);
  EXPECT_EQ(verify::verify(*compiled.expectation, compiled.manifest).failure, "");
}

INSTANTIATE_TEST_SUITE_P(Gpt, FullSize, testing::ValuesIn(layouts),
                         [](const auto &info) { return std::string(info.param.name); });

INSTANTIATE_TEST_SUITE_P(Models, Layouts,
                         testing::Combine(testing::Values("gpt-small", "llama-small"), testing::ValuesIn(layouts)),
                         [](const auto &info) {
                           std::string name = std::string(std::get<0>(info.param)) + "_" + std::get<1>(info.param).name;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

} // namespace
} // namespace dtc::test
