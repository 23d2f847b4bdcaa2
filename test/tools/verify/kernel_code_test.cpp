// Generated code against its meaning, on poisoned memory: random kernels, shapes with every kind of tail, in place and
// not, their grids cut in one to four parts, for each level of processor that this machine can run.
#include "tools/verify/KernelCode.h"

#include "passes/lower/KernelPlan.h"
#include "passes/lower/Target.h"
#include "runtime/program/cpu_features.h"
#include "test/passes/lower/support.h"

#include <gtest/gtest.h>
#include <random>

namespace dtc::verify {
namespace {

/// Kernels with R and C for their sizes and T for a floating-point type; each is made of what models' kernels are.
constexpr const char *templates[] = {
    // A sum with a vector, GELU and its gradient: the rows of a vocabulary are as odd as this.
    R"(dt.kernel @NAME(%x: tensor<RxCxT>, %b: tensor<CxT>, %g: tensor<RxCxT>) -> (tensor<RxCxT>, tensor<RxCxT>) {
      %rows = dt.broadcast %b dims [1] : tensor<CxT> -> tensor<RxCxT>
      %s = dt.add %x, %rows : tensor<RxCxT>
      %y = dt.gelu %s tanh : tensor<RxCxT>
      %d = dt.gelu_grad %g, %s tanh : tensor<RxCxT>
      dt.yield %y, %d : tensor<RxCxT>, tensor<RxCxT>
    })",
    // Elementwise: flat.
    R"(dt.kernel @NAME(%x: tensor<RxCxT>, %y: tensor<RxCxf32>) -> (tensor<RxCxT>, tensor<RxCxf32>) {
      %wide = dt.convert %x : tensor<RxCxT> -> tensor<RxCxf32>
      %s = dt.mul %wide, %y : tensor<RxCxf32>
      %n = dt.convert %s : tensor<RxCxf32> -> tensor<RxCxT>
      %z = dt.silu %s : tensor<RxCxf32>
      dt.yield %n, %z : tensor<RxCxT>, tensor<RxCxf32>
    })",
    // Softmax: three sweeps.
    R"(dt.kernel @NAME(%x: tensor<RxCxT>) -> tensor<RxCxT> {
      %wide = dt.convert %x : tensor<RxCxT> -> tensor<RxCxf32>
      %max = dt.reduce max %wide over [1] : tensor<RxCxf32> -> tensor<Rxf32>
      %maxAll = dt.broadcast %max dims [0] : tensor<Rxf32> -> tensor<RxCxf32>
      %shifted = dt.sub %wide, %maxAll : tensor<RxCxf32>
      %e = dt.exp %shifted : tensor<RxCxf32>
      %sum = dt.reduce sum %e over [1] : tensor<RxCxf32> -> tensor<Rxf32>
      %sumAll = dt.broadcast %sum dims [0] : tensor<Rxf32> -> tensor<RxCxf32>
      %p = dt.div %e, %sumAll : tensor<RxCxf32>
      %y = dt.convert %p : tensor<RxCxf32> -> tensor<RxCxT>
      dt.yield %y : tensor<RxCxT>
    })",
    // A norm, which keeps what its gradient needs.
    R"(dt.kernel @NAME(%x: tensor<RxCxT>, %w: tensor<Cxf32>) -> (tensor<RxCxT>, tensor<Rxf32>) {
      %wide = dt.convert %x : tensor<RxCxT> -> tensor<RxCxf32>
      %q = dt.mul %wide, %wide : tensor<RxCxf32>
      %sum = dt.reduce sum %q over [1] : tensor<RxCxf32> -> tensor<Rxf32>
      %n = dt.constant dense<0.0625> : tensor<Rxf32>
      %mean = dt.mul %sum, %n : tensor<Rxf32>
      %eps = dt.constant dense<1.0e-5> : tensor<Rxf32>
      %m = dt.add %mean, %eps : tensor<Rxf32>
      %r = dt.rsqrt %m : tensor<Rxf32>
      %all = dt.broadcast %r dims [0] : tensor<Rxf32> -> tensor<RxCxf32>
      %weights = dt.broadcast %w dims [1] : tensor<Cxf32> -> tensor<RxCxf32>
      %a = dt.mul %wide, %all : tensor<RxCxf32>
      %b = dt.mul %a, %weights : tensor<RxCxf32>
      %y = dt.convert %b : tensor<RxCxf32> -> tensor<RxCxT>
      dt.yield %y, %r : tensor<RxCxT>, tensor<Rxf32>
    })",
    // The gradient of a vector that was added to all rows, added to what is there.
    R"(dt.kernel @NAME(%x: tensor<RxCxT>, %old: tensor<CxT>) -> tensor<CxT> {
      %wide = dt.convert %x : tensor<RxCxT> -> tensor<RxCxf32>
      %sum = dt.reduce sum %wide over [0] : tensor<RxCxf32> -> tensor<Cxf32>
      %before = dt.convert %old : tensor<CxT> -> tensor<Cxf32>
      %new = dt.add %before, %sum : tensor<Cxf32>
      %y = dt.convert %new : tensor<Cxf32> -> tensor<CxT>
      dt.yield %y : tensor<CxT>
    })",
    // A sum of everything that cannot become flat.
    R"(dt.kernel @NAME(%x: tensor<RxCxT>, %b: tensor<Rxf32>) -> tensor<f32> {
      %wide = dt.convert %x : tensor<RxCxT> -> tensor<RxCxf32>
      %rows = dt.broadcast %b dims [0] : tensor<Rxf32> -> tensor<RxCxf32>
      %p = dt.mul %wide, %rows : tensor<RxCxf32>
      %sum = dt.reduce sum %p over [0, 1] : tensor<RxCxf32> -> tensor<f32>
      dt.yield %sum : tensor<f32>
    })",
    // The square of a norm, and what it is of.
    R"(dt.kernel @NAME(%x: tensor<RxCxf32>) -> (tensor<RxCxT>, tensor<f32>) {
      %n = dt.convert %x : tensor<RxCxf32> -> tensor<RxCxT>
      %w = dt.convert %n : tensor<RxCxT> -> tensor<RxCxf32>
      %q = dt.mul %w, %w : tensor<RxCxf32>
      %sum = dt.reduce sum %q over [0, 1] : tensor<RxCxf32> -> tensor<f32>
      dt.yield %n, %sum : tensor<RxCxT>, tensor<f32>
    })",
    // Dropout before a residual.
    R"(dt.kernel @NAME(%x: tensor<RxCxT>, %old: tensor<RxCxT>, %key: tensor<4xi32>) -> tensor<RxCxT> {
      %u = dt.random %key site 0 of [R, C] : tensor<4xi32> -> tensor<RxCxf32>
      %rate = dt.constant dense<0.25> : tensor<RxCxf32>
      %keep = dt.compare ge %u, %rate : tensor<RxCxf32> -> tensor<RxCxi1>
      %zero = dt.constant dense<0.0> : tensor<RxCxT>
      %dropped = dt.select %keep, %x, %zero : tensor<RxCxi1>, tensor<RxCxT>
      %y = dt.add %old, %dropped : tensor<RxCxT>
      dt.yield %y : tensor<RxCxT>
    })",
    // One of each row: what a cross-entropy picks, and a mask that is stored.
    R"(dt.kernel @NAME(%x: tensor<RxCxT>, %t: tensor<Rxi32>, %m: tensor<RxCxi1>) -> (tensor<RxCxT>, tensor<RxCxi1>, tensor<Rxf32>) {
      %i = dt.iota 1 : tensor<RxCxi32>
      %all = dt.broadcast %t dims [0] : tensor<Rxi32> -> tensor<RxCxi32>
      %is = dt.compare eq %i, %all : tensor<RxCxi32> -> tensor<RxCxi1>
      %both = dt.and %is, %m : tensor<RxCxi1>
      %zero = dt.constant dense<0.0> : tensor<RxCxT>
      %y = dt.select %is, %x, %zero : tensor<RxCxi1>, tensor<RxCxT>
      %wide = dt.convert %y : tensor<RxCxT> -> tensor<RxCxf32>
      %sum = dt.reduce sum %wide over [1] : tensor<RxCxf32> -> tensor<Rxf32>
      dt.yield %y, %both, %sum : tensor<RxCxT>, tensor<RxCxi1>, tensor<Rxf32>
    })",
    // Broadcasts along inner and outer dimensions of four.
    R"(dt.kernel @NAME(%a: tensor<3xf32>, %b: tensor<RxT>, %c: tensor<3xRx2xCxT>) -> tensor<3xRx2xCxT> {
      %0 = dt.broadcast %a dims [0] : tensor<3xf32> -> tensor<3xRx2xCxf32>
      %1 = dt.broadcast %b dims [1] : tensor<RxT> -> tensor<3xRx2xCxT>
      %2 = dt.add %1, %c : tensor<3xRx2xCxT>
      %3 = dt.convert %2 : tensor<3xRx2xCxT> -> tensor<3xRx2xCxf32>
      %4 = dt.max %0, %3 : tensor<3xRx2xCxf32>
      %y = dt.convert %4 : tensor<3xRx2xCxf32> -> tensor<3xRx2xCxT>
      dt.yield %y : tensor<3xRx2xCxT>
    })",
};

std::string replaceAll(std::string text, const std::string &from, const std::string &to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

std::string instantiate(const char *text, const std::string &name, int64_t rows, int64_t columns, const char *type) {
  std::string result = replaceAll(text, "NAME", name);
  for (const char *before : {"<", "x", "["})
    result = replaceAll(result, std::string(before) + "Rx", before + std::to_string(rows) + "x");
  result = replaceAll(result, "[R, C]", "[" + std::to_string(rows) + ", " + std::to_string(columns) + "]");
  for (const char *before : {"<", "x"})
    result = replaceAll(result, std::string(before) + "Cx", before + std::to_string(columns) + "x");
  return replaceAll(result, "xT>", std::string("x") + type + ">");
}

class Random {
public:
  explicit Random(unsigned seed) : engine(seed) {}
  int64_t below(int64_t limit) { return static_cast<int64_t>(engine() % static_cast<uint64_t>(limit)); }
  template <typename T, size_t N> T of(const T (&choices)[N]) { return choices[below(N)]; }

private:
  std::mt19937_64 engine;
};

/// Compiled for a level, with plan and launch shape.
class Code {
public:
  Code(const std::string &text, const std::string &level) : kernels(text, level) {
    if (kernels.good())
      setTarget(*kernels.module, level);
  }

  CodeResult run(const std::string &name, const CodeTrial &trial) {
    mlir::dt::KernelOp kernel = kernels.kernel(name);
    std::string why;
    mlir::FailureOr<KernelPlan> plan = planKernel(kernel, why);
    mlir::FailureOr<KernelInterface> interface = describe(kernel);
    if (failed(plan) || failed(interface))
      return {.failure = "no kernel: " + why};
    std::vector<int64_t> scalars;
    for (const mlir::dt::LaunchScalar &scalar : interface->scalars)
      scalars.push_back(scalar.integer);
    return KernelCode(kernel, *plan, targetOf(kernel).getLaunchShape(*plan), kernels.function(name), scalars, {})
        .run(trial);
  }
  /// Outputs over inputs as far as `random` wants and the kernel may.
  std::vector<int> chooseInPlace(const std::string &name, Random &random) {
    std::vector<int> result;
    mlir::FailureOr<KernelInterface> interface = describe(kernels.kernel(name));
    for (const auto &inputs : interface->inPlace) {
      int input = inputs.empty() || random.below(3) == 0 ? -1 : int(inputs[random.below(int64_t(inputs.size()))]);
      result.push_back(llvm::is_contained(result, input) ? -1 : input);
    }
    return result;
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
  constexpr int64_t tails[] = {0, 1, 2, 15};
  constexpr const char *types[] = {"f32", "bf16", "f16"};
  int64_t trials = 0, compared = 0;
  for (const std::string &level : levels())
    for (int module = 0; module < 5; ++module) {
      std::string text;
      std::vector<std::string> names;
      for (int copy = 0; copy < 4; ++copy)
        for (const char *kernel : templates) {
          int64_t columns = std::max<int64_t>(1, 16 * random.below(module == 0 ? 3 : 14) + random.of(tails));
          names.push_back("k" + std::to_string(names.size()));
          text += instantiate(kernel, names.back(), 1 + random.below(20), columns, random.of(types)) + "\n";
        }
      Code code(text, level);
      ASSERT_TRUE(code.kernels.good()) << text;
      for (const std::string &name : names)
        for (int i = 0; i < 5; ++i, ++trials) {
          CodeTrial trial = {code.chooseInPlace(name, random), int(1 + random.below(4)), unsigned(trials), 1e6};
          CodeResult result = code.run(name, trial);
          compared += result.compared;
          EXPECT_EQ(result.failure, "") << level;
        }
    }
  EXPECT_GE(trials, 1000 * int64_t(levels().size()));
  EXPECT_GT(compared, 100 * trials);
}

} // namespace
} // namespace dtc::verify
