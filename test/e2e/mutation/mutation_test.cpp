// Is `verify` worth anything? Things in a program are broken one after the other, in every way, and verify must notice.
#include "test/e2e/compiled_model.h"
#include "test/e2e/mutation/mutations.h"
#include "test/long_tests.h"

#include "runtime/support/error.h"

namespace dtc::test {
namespace {

/// The verdict of `verify` on a mutant; a program that it refuses counts as noticed.
std::string failureOf(const CompiledModel &compiled, const Mutant &mutant) {
  try {
    return verify::verify(*compiled.expectation, mutant.manifest).failure;
  } catch (const dtc::Error &error) {
    return error.what();
  }
}

/// One of this many mutants is tried.
size_t oneOf() { return testsMayBeLong() ? DTC_ONE_MUTANT_OF : std::max(DTC_ONE_MUTANT_OF, 5); }

/// The first one is tried. Numbers are scattered (by the golden ratio): the mutations of each command recur with a
/// period, so every fifth mutant could always be of one kind.
bool isTried(uint64_t number) { return ((number * 0x9E3779B97F4A7C15 >> 32) * oneOf()) >> 32 == 0; }

class Mutation : public testing::TestWithParam<std::tuple<const char *, const char *>> {
protected:
  Mutation() : compiled(setup()) {}

  static ModelSetup setup() {
    auto [model, strategy] = GetParam();
    const char *mesh = std::string(strategy) == "ddp" ? "dp=4" : "dp=2,tp=2";
    return {.model = model, .mesh = mesh, .strategy = strategy, .symbols = smallSymbols(model)};
  }

  void SetUp() override {
    ASSERT_TRUE(compiled.expectation);
    ASSERT_EQ(verify::verify(*compiled.expectation, compiled.manifest).failure, "");
  }

  void expectNoticed(const std::vector<Mutant> &mutants) {
    ASSERT_FALSE(mutants.empty());
    std::map<std::string, int> equivalent;
    int tried = 0;
    for (size_t number = 0; number < mutants.size(); ++number) {
      if (!isTried(number))
        continue;
      ++tried;
      const Mutant &mutant = mutants[number];
      std::string failure = failureOf(compiled, mutant);
      if (mutant.equivalence.empty())
        EXPECT_NE(failure, "") << "not noticed: " << mutant.description;
      else
        EXPECT_EQ(failure, "") << mutant.description << " is equivalent by " << mutant.equivalence;
      ++equivalent[mutant.equivalence];
    }
    RecordProperty("mutants", tried);
    for (const auto &[rule, count] : equivalent)
      RecordProperty(rule.empty() ? "noticed" : "equivalent_" + rule, count);
  }

  CompiledModel compiled;
};

TEST_P(Mutation, EveryBrokenCollectiveIsNoticed) { expectNoticed(makeMutants(compiled.manifest)); }

TEST_P(Mutation, EveryBrokenLaunchIsNoticed) { expectNoticed(makeLaunchMutants(compiled.manifest)); }

TEST_P(Mutation, EveryBrokenFileLayoutIsNoticed) { expectNoticed(makeFileMutants(compiled.manifest)); }

TEST_P(Mutation, EveryMisplacedInputIsNoticed) { expectNoticed(makePlacementMutants(compiled.manifest)); }

INSTANTIATE_TEST_SUITE_P(Presets, Mutation,
                         testing::Combine(testing::Values("gpt-small", "llama-small"),
                                          testing::Values("ddp", "megatron", "megatron-sp", "zero1", "zero3")),
                         [](const auto &info) {
                           std::string name = std::string(std::get<0>(info.param)) + "_" + std::get<1>(info.param);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

} // namespace
} // namespace dtc::test
