// Generated code against its meaning, on poisoned memory: random kernels, shapes with every kind of tail, in place and
// not, their grids cut in one to four parts, for each level of processor that this machine can run.
#include "tools/verify/KernelCode.h"

#include "passes/lower/Targets.h"
#include "passes/lower/kernels/KernelPlan.h"
#include "runtime/program/start/cpu_features.h"
#include "test/passes/lower/support.h"
#include "test/tools/verify/random_kernels.h"

#include <gtest/gtest.h>

namespace dtc::verify {
namespace {

/// Compiled for a level, with plan and launch shape.
class Code {
public:
  Code(const std::string &text, const std::string &level) : kernels(text, level) {
    if (kernels.good())
      setTarget(*kernels.module, level);
  }

  CodeResult run(const std::string &name, const CodeTrial &trial, const std::vector<int64_t> &sites) {
    mlir::dt::KernelOp kernel = kernels.kernel(name);
    std::string why;
    mlir::FailureOr<KernelPlan> plan = planKernel(kernel, why);
    mlir::FailureOr<KernelInterface> interface = describe(kernel);
    if (failed(plan) || failed(interface))
      return {.failure = "no kernel: " + why};
    std::vector<int64_t> scalars;
    for (const mlir::dt::LaunchScalar &scalar : interface->scalars)
      scalars.push_back(scalar.kind == mlir::dt::LaunchScalar::Kind::Site ? sites[scalar.integer] : scalar.integer);
    mlir::dt::RankContext rank;
    rank.sites = sites;
    return KernelCode(kernel, *plan, targetOf(kernel).getLaunchShape(*plan), kernels.function(name), scalars, rank)
        .run(trial);
  }

  test::CompiledKernels kernels;
};

/// The levels that this machine can run.
std::vector<std::string> levels() {
  auto machine = machineCpuFeatures();
  if (hasCpuFeature(machine, "avx512f") && hasCpuFeature(machine, "avx512vl") && hasCpuFeature(machine, "avx512bw"))
    return {"x86-64-v3", "x86-64-v4"};
  return {"x86-64-v3"};
}

TEST(KernelCode, RandomKernelsDoWhatTheyMeanAndNothingElse) {
  Random random(7);
  int64_t trials = 0, compared = 0, unbounded = 0;
  for (const std::string &level : levels())
    for (int module = 0; module < 5; ++module) {
      RandomKernels kernels = makeRandomKernels(random, 4, 20, module == 0 ? 3 : 14);
      Code code(kernels.text, level);
      ASSERT_TRUE(code.kernels.good()) << kernels.text;
      for (const std::string &name : kernels.names) {
        mlir::FailureOr<KernelInterface> interface = describe(code.kernels.kernel(name));
        for (int i = 0; i < 5; ++i, ++trials) {
          CodeTrial trial = {chooseInPlace(*interface, random), int(1 + random.below(4)), unsigned(trials), 1e6};
          CodeResult result = code.run(name, trial, chooseSites(*interface, random));
          compared += result.compared;
          unbounded += result.unbounded;
          EXPECT_EQ(result.failure, "") << level;
        }
      }
    }
  EXPECT_GE(trials, 1000 * int64_t(levels().size()));
  EXPECT_GT(compared, 100 * trials);
  EXPECT_LT(unbounded, compared / 1000);
}

} // namespace
} // namespace dtc::verify
