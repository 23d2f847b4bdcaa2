// The native program, f32, against whole tensors in f64: generated kernels, library kernels, collectives and executor
// together, with ranks as threads.
#include "test/e2e/native_subject.h"

namespace dtc::test {
namespace {

class Native : public testing::TestWithParam<std::tuple<const char *, Layout>> {};

TEST_P(Native, ComputesOneStepAndOneEvaluation) {
  auto [model, layout] = GetParam();
  CompiledModel compiled(smallSetup(model, layout, {.generateCode = true}));
  ASSERT_TRUE(compiled.expectation);
  NativeSubject subject(compiled);
  // Updates are compared by the change that they make, which is a few thousandths of a parameter close to one: rounding
  // the parameter to f32 alone changes that by some 5e-5. Everything else is ten times closer.
  constexpr double tolerance = 1e-4;
  verify::VerifyReport report = verify::verify(*compiled.expectation, subject, tolerance);
  EXPECT_EQ(report.failure, "");
  for (const verify::Comparison &comparison : report.comparisons)
    if (comparison.list != "update") {
      EXPECT_LE(comparison.error, 0.1 * comparison.bound) << comparison.list << ": " << comparison.tensor;
    }
}

INSTANTIATE_TEST_SUITE_P(Models, Native,
                         testing::Combine(testing::Values("gpt-small", "llama-small"),
                                          testing::Values(Layout{"one", "dp=1", "ddp", 1},
                                                          Layout{"dp4", "dp=4", "ddp", 1},
                                                          Layout{"tp4", "tp=4", "megatron", 1},
                                                          Layout{"dp2_tp2_accumulating", "dp=2,tp=2", "megatron", 2},
                                                          Layout{"dp2_tp2_sp", "dp=2,tp=2", "megatron-sp", 1},
                                                          Layout{"tp3_sp", "tp=3", "megatron-sp", 1})),
                         nameOf);

} // namespace
} // namespace dtc::test
