// Is `verify` worth anything? One collective after the other is broken in every way, and verify must notice.
#include "test/e2e/compiled_model.h"
#include "test/e2e/mutation/mutations.h"

namespace dtc::test {
namespace {

class Mutation : public testing::TestWithParam<std::tuple<const char *, const char *>> {};

TEST_P(Mutation, EveryBrokenCollectiveIsNoticed) {
  auto [model, strategy] = GetParam();
  const char *mesh = std::string(strategy) == "ddp" ? "dp=4" : "dp=2,tp=2";
  CompiledModel compiled({.model = model, .mesh = mesh, .strategy = strategy, .symbols = smallSymbols(model)});
  ASSERT_TRUE(compiled.expectation);
  ASSERT_EQ(verify::verify(*compiled.expectation, compiled.manifest).failure, "");
  std::vector<Mutant> mutants = makeMutants(compiled.manifest);
  ASSERT_FALSE(mutants.empty());
  std::map<std::string, int> equivalent;
  for (const Mutant &mutant : mutants) {
    std::string failure = verify::verify(*compiled.expectation, mutant.manifest).failure;
    if (mutant.equivalence.empty())
      EXPECT_NE(failure, "") << "not noticed: " << mutant.description;
    else
      EXPECT_EQ(failure, "") << mutant.description << " is equivalent by " << mutant.equivalence;
    ++equivalent[mutant.equivalence];
  }
  RecordProperty("mutants", int(mutants.size()));
  for (const auto &[rule, count] : equivalent)
    RecordProperty(rule.empty() ? "noticed" : "equivalent_" + rule, count);
}

INSTANTIATE_TEST_SUITE_P(Presets, Mutation,
                         testing::Combine(testing::Values("gpt-small", "llama-small"),
                                          testing::Values("ddp", "megatron", "megatron-sp")),
                         [](const auto &info) {
                           std::string name = std::string(std::get<0>(info.param)) + "_" + std::get<1>(info.param);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

} // namespace
} // namespace dtc::test
