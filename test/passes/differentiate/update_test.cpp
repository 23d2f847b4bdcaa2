// The optimizer's function against PyTorch's formulas, written out element by element.
#include "mlir/Pass/PassManager.h"
#include "passes/differentiate/Passes.h"
#include "runtime/abi/optimizers.h"
#include "test/dialect/reference/support.h"

#include <limits>

using namespace mlir;
using namespace mlir::dt;
using namespace mlir::dt::test;

namespace {

constexpr double rate = 0.25, count = 8, loss = 20;

class Update : public ReferenceTest {
protected:
  /// One parameter that decays and one that does not, two elements each.
  void build(const dtc::BuildUpdateOptions &options) { ASSERT_TRUE(tryBuild(options)) << error; }
  bool tryBuild(const dtc::BuildUpdateOptions &options) {
    module = parseSourceString<ModuleOp>(
        R"(module attributes {dt.parameters = [
      #dt.param<"w", )" +
            layerOfW +
            R"(file = [2], factored = [2], permutation = [0], dims = ["d"], init = "zeros", stddev = 0.0 : f64, decays = true>,
      #dt.param<"b", file = [2], factored = [2], permutation = [0], dims = ["d"], init = "zeros", stddev = 0.0 : f64, decays = false>]} {})",
        &context);
    PassManager manager(&context);
    manager.addPass(dtc::createBuildUpdate(options));
    return module && succeeded(manager.run(*module));
  }

  HostTensors run(const HostTensors &arguments) {
    FailureOr<HostTensors> results = interpret(module->lookupSymbol<func::FuncOp>("update"), arguments);
    EXPECT_TRUE(succeeded(results)) << error;
    return succeeded(results) ? *results : HostTensors(6, HostTensor({2}));
  }

  std::string text() {
    std::string printed;
    llvm::raw_string_ostream stream(printed);
    module->print(stream);
    return printed;
  }

  // Options that f32 holds exactly, so that the formulas agree to f64's precision.
  void checkAdamW(double ahead) {
    SCOPED_TRACE(ahead);
    dtc::BuildUpdateOptions options;
    options.settings = {"beta1=0.75", "beta2=0.875", "epsilon=9.5367431640625e-07",
                        "weight_decay=0.5", // epsilon: 2^-20
                        "nesterov=" + std::to_string(ahead)};
    options.clipNorm = 0.5;
    build(options);
    double norm = 2, correction1 = 0.4375, correction2 = 0.234375;
    HostTensor w = tensor({2}, {1, -2}), b = tensor({2}, {3, 0.5});
    HostTensor mw = tensor({2}, {0.1, -0.2}), mb = tensor({2}, {0.3, 0.4});
    HostTensor vw = tensor({2}, {0.01, 0.04}), vb = tensor({2}, {0.09, 0.16});
    HostTensor gw = tensor({2}, {4, -8}), gb = tensor({2}, {2, 16});
    HostTensors results = run({w, b, mw, mb, vw, vb, gw, gb, scalar(loss), scalar(count), scalar(norm), scalar(rate),
                               scalar(correction1), scalar(correction2)});

    auto check = [&](unsigned parameter, const HostTensor &p, const HostTensor &m, const HostTensor &v,
                     const HostTensor &g, double decay) {
      for (int64_t i = 0; i < 2; ++i) {
        double gradient = g[i] / count * std::min(1.0, 0.5 / (norm + 1e-6));
        double first = 0.75 * m[i] + 0.25 * gradient, second = 0.875 * v[i] + 0.125 * gradient * gradient;
        double decayed = p[i] - rate * decay * p[i];
        double denominator = std::sqrt(second) / std::sqrt(correction2) + 0x1p-20;
        double next = 1 - 0.75 * (1 - correction1); // the correction of the next step
        double looked = 0.75 / next * first + 0.25 / correction1 * gradient;
        double updated = decayed - rate * ((1 - ahead) * first / correction1 + ahead * looked) / denominator;
        EXPECT_NEAR(results[parameter][i], updated, 1e-12);
        EXPECT_NEAR(results[2 + parameter][i], first, 1e-12);
        EXPECT_NEAR(results[4 + parameter][i], second, 1e-12);
      }
    };
    check(0, w, mw, vw, gw, 0.5);
    check(1, b, mb, vb, gb, 0);
  }

  std::string layerOfW; ///< of the first parameter
  static HostTensor scalar(double value) { return HostTensor(ArrayRef<int64_t>(), value); }
};

TEST_F(Update, AdamWIsDecoupledAndClips) {
  for (double ahead : {0.0, 0.25, 1.0})
    checkAdamW(ahead);
}

// PipeDream: w is in a layer, whose gradient has the norm sqrt(80) / 8; b is clipped by itself, and its gradient is
// small.
TEST_F(Update, OfAStageByItselfClipsEachLayer) {
  dtc::BuildUpdateOptions options;
  options.asynchronous = true, options.clipNorm = 0.5;
  options.optimizer = "sgd", options.settings = {"weight_decay=0", "momentum=0"};
  layerOfW = "layer = #dt.layer<\"h\"[0]>, ";
  build(options);
  HostTensor w = tensor({2}, {1, -2}), b = tensor({2}, {3, 0.5}), gw = tensor({2}, {4, -8}), gb = tensor({2}, {2, 1});
  HostTensors results = run({w, b, gw, gb, scalar(loss), scalar(count), scalar(rate)});
  double factor = 0.5 / (std::sqrt(80.0) / count + 1e-6);
  for (int64_t i = 0; i < 2; ++i) {
    EXPECT_NEAR(results[0][i], w[i] - rate * factor * gw[i] / count, 1e-12);
    EXPECT_NEAR(results[1][i], b[i] - rate * gb[i] / count, 1e-12);
  }
}

TEST_F(Update, SmallGradientsAreNotClipped) {
  dtc::BuildUpdateOptions options;
  options.optimizer = "sgd", options.settings = {"weight_decay=0", "momentum=0"}, options.clipNorm = 4;
  build(options);
  HostTensor w = tensor({2}, {1, -2}), g = tensor({2}, {4, -8});
  HostTensors results = run({w, w, g, g, scalar(loss), scalar(count), scalar(2), scalar(rate)});
  EXPECT_NEAR(results[0][0], 1 - rate * 4 / count, 1e-12);
  EXPECT_NEAR(results[1][1], -2 + rate * 8 / count, 1e-12);
}

TEST_F(Update, MomentumSumsDecayedGradients) {
  dtc::BuildUpdateOptions options;
  options.optimizer = "sgd", options.settings = {"weight_decay=0.5", "momentum=0.75"};
  build(options);
  HostTensor w = tensor({2}, {1, -2}), m = tensor({2}, {0.5, 2}), g = tensor({2}, {4, -8});
  HostTensors results = run({w, w, m, m, g, g, scalar(loss), scalar(count), scalar(2), scalar(rate)});
  for (int64_t i = 0; i < 2; ++i) {
    double decayed = 0.75 * m[i] + g[i] / count + 0.5 * w[i], plain = 0.75 * m[i] + g[i] / count;
    EXPECT_NEAR(results[0][i], w[i] - rate * decayed, 1e-12);
    EXPECT_NEAR(results[1][i], w[i] - rate * plain, 1e-12);
    EXPECT_NEAR(results[2][i], decayed, 1e-12);
    EXPECT_NEAR(results[3][i], plain, 1e-12);
  }
  EXPECT_EQ(results[4][0], 1);
}

// It knows the loss and the tokens as the stage's own shares, and tells the host nothing.
TEST_F(Update, OfAStageByItselfReadsNoNorm) {
  dtc::BuildUpdateOptions options;
  options.asynchronous = true;
  options.optimizer = "sgd", options.settings = {"weight_decay=0", "momentum=0"};
  build(options);
  HostTensor w = tensor({2}, {1, -2}), b = tensor({2}, {3, 0.5}), gw = tensor({2}, {4, -8}), gb = tensor({2}, {2, 16});
  HostTensors results = run({w, b, gw, gb, scalar(loss), scalar(count), scalar(rate)});
  ASSERT_EQ(results.size(), 2u);
  double infinite = std::numeric_limits<double>::infinity();
  HostTensors kept = run({w, b, gw, gb, scalar(infinite), scalar(count), scalar(rate)}),
              none = run({w, b, gw, gb, scalar(loss), scalar(0), scalar(rate)});
  for (int64_t i = 0; i < 2; ++i) {
    EXPECT_NEAR(results[0][i], w[i] - rate * gw[i] / count, 1e-12);
    EXPECT_NEAR(results[1][i], b[i] - rate * gb[i] / count, 1e-12);
    EXPECT_EQ(kept[0][i], w[i]);
    EXPECT_EQ(none[1][i], b[i]);
  }
}

// The table of optimizers and the formulas are two lists of one thing.
TEST_F(Update, EveryOptimizerHasAFormulaAndItsDefaultsAreTaken) {
  for (const dtc::abi::Optimizer &optimizer : dtc::abi::optimizers()) {
    dtc::BuildUpdateOptions options;
    options.optimizer = std::string(optimizer.name);
    build(options);
    std::string silent = text();
    for (const dtc::abi::OptimizerSetting &setting : optimizer.settings)
      llvm::raw_string_ostream(options.settings.emplace_back())
          << llvm::StringRef(setting.key) << "=" << setting.initial;
    build(options);
    EXPECT_EQ(text(), silent) << optimizer.name;
  }
}

// The gate: every result is its argument, and the output says so.
class Gate : public Update, public testing::WithParamInterface<bool> {
protected:
  bool isAdam() const { return GetParam(); }
  /// Whether the update applies with these scalars; all state must be new or all as it was.
  bool applies(double lossSum, double tokens, double norm) {
    HostTensors arguments;
    for (unsigned i = 0; i < (isAdam() ? 6 : 4); ++i)
      arguments.push_back(tensor({2}, {0.5 + i, 2.0 + i}));
    unsigned state = arguments.size();
    arguments.push_back(tensor({2}, {4, -8}));
    arguments.push_back(tensor({2}, {norm, norm})); // as the norm, so the gradient
    for (double value : {lossSum, tokens, norm, rate})
      arguments.push_back(scalar(value));
    if (isAdam())
      for (double correction : {0.4375, 0.234375})
        arguments.push_back(scalar(correction));
    HostTensors results = run(arguments);
    EXPECT_EQ(results.size(), state + 1);
    bool applied = results.back()[0] != 0;
    EXPECT_EQ(results.back()[0], applied);
    for (unsigned i = 0; i < state; ++i)
      for (int64_t element = 0; element < 2; ++element)
        EXPECT_EQ(results[i][element] != arguments[i][element], applied) << "state " << i;
    return applied;
  }
};

TEST_P(Gate, StateIsAllNewOrAllAsItWas) {
  dtc::BuildUpdateOptions options;
  options.optimizer = isAdam() ? "adamw" : "sgd";
  build(options);
  double infinite = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(applies(loss, count, 3));
  EXPECT_TRUE(applies(-loss, count, 3));
  for (double value : {infinite, -infinite, nan}) {
    EXPECT_FALSE(applies(value, count, 3)) << value;
    EXPECT_FALSE(applies(loss, count, value)) << value;
  }
  EXPECT_FALSE(applies(loss, 0, 3)) << "no token counts";
}

INSTANTIATE_TEST_SUITE_P(Optimizers, Gate, testing::Bool(),
                         [](const auto &info) { return info.param ? "adamw" : "sgd"; });

} // namespace
