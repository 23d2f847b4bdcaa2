// Compares every operation's gradient with central differences of its own meaning, in f64; and every composite's
// decomposition with the composite.
#include "dialect/IR/Names.h"
#include "mlir/Pass/PassManager.h"
#include "passes/differentiate/Passes.h"
#include "test/dialect/reference/support.h"

using namespace mlir;
using namespace mlir::dt;
using namespace mlir::dt::test;

namespace {

/// %y of shape `result` from parameters %a, %b, ... of shapes `parameters`, integers %i of shape `indices` in
/// [0, range), and %key.
struct Case {
  std::string name;
  std::vector<std::string> parameters;
  std::string result;
  std::string body;
  double low = -2, high = 2; ///< of the parameters' values
  std::string indices = "1";
  int64_t range = 1;
  bool ignoreFirst = false; ///< the first index is -100
};

std::ostream &operator<<(std::ostream &out, const Case &test) { return out << test.name; }

std::string tensorType(const std::string &shape, const std::string &element = "f32") {
  return "tensor<" + (shape.empty() ? element : shape + "x" + element) + ">";
}

SmallVector<int64_t> shapeOf(Type type) { return SmallVector<int64_t>(cast<RankedTensorType>(type).getShape()); }

/// @loss = sum of %y, weighted so that every element of its gradient matters.
std::string lossOf(const Case &test) {
  std::string text = "func.func @loss(";
  for (size_t i = 0; i < test.parameters.size(); ++i) {
    std::string name(1, static_cast<char>('a' + i));
    text += "%" + name + ": " + tensorType(test.parameters[i]) + " {dt.port = #dt.port<parameter \"" + name + "\">}, ";
  }
  text += "%i: " + tensorType(test.indices, "i32") + " {dt.port = #dt.port<input \"i\">}, ";
  text += "%key: tensor<4xi32> {dt.port = #dt.port<input \"key\">}, ";
  text += "%weights: " + tensorType(test.result) + " {dt.port = #dt.port<input \"weights\">})\n";
  text += "    -> (tensor<f32> {dt.port = #dt.port<output \"loss_sum\">}, tensor<f32> "
          "{dt.port = #dt.port<output \"token_count\">}) {\n";
  text += test.body + "\n  %weighted = dt.mul %y, %weights : " + tensorType(test.result) + "\n";
  std::string dims;
  for (int64_t i = 0, rank = std::count(test.result.begin(), test.result.end(), 'x') + 1; i < rank; ++i)
    dims += (i ? ", " : "") + std::to_string(i);
  text += "  %sum = dt.reduce sum %weighted over [" + dims + "] : " + tensorType(test.result) + " -> tensor<f32>\n";
  return text + "  return %sum, %sum : tensor<f32>, tensor<f32>\n}\n";
}

class Gradient : public ReferenceTest, public testing::WithParamInterface<Case> {
protected:
  func::FuncOp function(StringRef name) { return module->lookupSymbol<func::FuncOp>(name); }

  void runPass(std::unique_ptr<Pass> pass) {
    PassManager manager(&context);
    manager.addPass(std::move(pass));
    ASSERT_TRUE(succeeded(manager.run(*module))) << error;
  }

  HostTensors call(StringRef name, const HostTensors &arguments) {
    FailureOr<HostTensors> results = interpret(function(name), arguments);
    EXPECT_TRUE(succeeded(results)) << error;
    return succeeded(results) ? *results : HostTensors();
  }

  HostTensors makeArguments() {
    const Case &test = GetParam();
    std::mt19937 engine(7);
    std::uniform_real_distribution<double> value(test.low, test.high);
    std::uniform_int_distribution<int64_t> index(0, test.range - 1);
    HostTensors arguments;
    for (Type type : function("loss").getArgumentTypes()) {
      HostTensor argument(shapeOf(type));
      bool isFloat = isa<FloatType>(cast<RankedTensorType>(type).getElementType());
      for (int64_t i = 0; i < argument.size(); ++i)
        argument[i] = isFloat ? value(engine) : static_cast<double>(index(engine));
      arguments.push_back(argument);
    }
    if (test.ignoreFirst)
      arguments[test.parameters.size()][0] = -100;
    return arguments;
  }

  /// The loss with one element of one argument changed.
  double lossAt(const HostTensors &arguments, size_t argument, int64_t element, double shift) {
    HostTensors moved = arguments;
    moved[argument].elements = std::make_shared<std::vector<double>>(*arguments[argument].elements);
    moved[argument][element] += shift;
    HostTensors results = call("loss", moved);
    return results.empty() ? std::nan("") : results[0][0];
  }
};

TEST_P(Gradient, IsTheLimitOfDifferences) {
  ASSERT_TRUE(parse(lossOf(GetParam())));
  HostTensors arguments = makeArguments();
  runPass(dtc::createDifferentiate());
  HostTensors results = call("micro", arguments);
  ASSERT_EQ(results.size(), 2 + GetParam().parameters.size());
  constexpr double step = 1e-4;
  for (size_t parameter = 0; parameter < GetParam().parameters.size(); ++parameter)
    for (int64_t i = 0; i < arguments[parameter].size(); ++i) {
      double expected = (lossAt(arguments, parameter, i, step) - lossAt(arguments, parameter, i, -step)) / (2 * step);
      // The error of the difference itself is about 1e-8 here, that of constants held in f32 6e-8.
      EXPECT_NEAR(results[2 + parameter][i], expected, 1e-6 * (1 + std::abs(expected)))
          << "parameter " << parameter << ", element " << i;
    }

  // The decomposed function means the same.
  runPass(dtc::createDecompose());
  HostTensors decomposed = call("micro", arguments);
  ASSERT_EQ(decomposed.size(), results.size());
  for (size_t result = 0; result < results.size(); ++result)
    for (int64_t i = 0; i < results[result].size(); ++i)
      EXPECT_NEAR(decomposed[result][i], results[result][i], 1e-6 * (1 + std::abs(results[result][i])))
          << "result " << result << ", element " << i;
}

std::string unary(const std::string &op) { return "  %y = dt." + op + " %a : tensor<5xf32>"; }
std::string binary(const std::string &op) { return "  %y = dt." + op + " %a, %b : tensor<5xf32>"; }

std::string attention(const std::string &dropout, const std::string &causal, const std::string &more = "") {
  return R"(  %p = dt.iota 0 : tensor<3xi32>
  %y, %lse = dt.attention %a, %b, %c, %p, %p, %key {scale = 0.5 : f64, causal = )" +
         causal + ", dropout = " + dropout + " : f64" + more +
         R"(, site = 3 : i64, global_shape = array<i64: 2, 2, 2, 3>}
      : (tensor<2x3x2x2x4xf32>, tensor<2x3x2x4xf32>, tensor<2x3x2x4xf32>, tensor<3xi32>, tensor<3xi32>, tensor<4xi32>)
      -> (tensor<2x3x2x2x4xf32>, tensor<2x2x2x3xf32>))";
}

/// Of four classes, with a target that is ignored: what its two results are called, and what follows.
Case crossEntropy(const std::string &name, const std::string &results, const std::string &more = "") {
  return {name,
          {"2x3x4"},
          "2x3",
          "  " + results + R"( = dt.softmax_cross_entropy %a, %i ignore -100
      : (tensor<2x3x4xf32>, tensor<2x3xi32>) -> (tensor<2x3xf32>, tensor<2x3xf32>))" +
              more,
          -2,
          2,
          "2x3",
          4,
          true};
}

const std::vector<std::string> one = {"5"}, two = {"5", "5"};
const std::vector<std::string> qkv = {"2x3x2x2x4", "2x3x2x4", "2x3x2x4"};

INSTANTIATE_TEST_SUITE_P(
    Elementwise, Gradient,
    testing::Values(Case{"neg", one, "5", unary("neg")}, Case{"exp", one, "5", unary("exp")},
                    Case{"log", one, "5", unary("log"), 0.5, 2}, Case{"sqrt", one, "5", unary("sqrt"), 0.5, 2},
                    Case{"rsqrt", one, "5", unary("rsqrt"), 0.5, 2}, Case{"tanh", one, "5", unary("tanh")},
                    Case{"erf", one, "5", unary("erf")}, Case{"logistic", one, "5", unary("logistic")},
                    Case{"gelu", one, "5", "  %y = dt.gelu %a : tensor<5xf32>"},
                    Case{"gelu_tanh", one, "5", "  %y = dt.gelu %a tanh : tensor<5xf32>"},
                    Case{"silu", one, "5", unary("silu")}, Case{"add", two, "5", binary("add")},
                    Case{"sub", two, "5", binary("sub")}, Case{"mul", two, "5", binary("mul")},
                    Case{"div", two, "5", binary("div"), 0.5, 2},
                    Case{"swiglu", two, "5", "  %s = dt.silu %a : tensor<5xf32>\n  %y = dt.mul %s, %b : tensor<5xf32>"},
                    Case{"select", two, "5", R"(  %z = dt.constant dense<0> : tensor<5xi32>
  %m = dt.compare eq %i, %z : tensor<5xi32> -> tensor<5xi1>
  %y = dt.select %m, %a, %b : tensor<5xi1>, tensor<5xf32>)",
                         -2, 2, "5", 2},
                    Case{"convert_bf16", one, "5", R"(  %h = dt.convert %a : tensor<5xf32> -> tensor<5xbf16>
  %s = dt.mul %h, %h : tensor<5xbf16>
  %y = dt.convert %s : tensor<5xbf16> -> tensor<5xf32>)"},
                    Case{"convert_f16", one, "5", R"(  %h = dt.convert %a : tensor<5xf32> -> tensor<5xf16>
  %t = dt.tanh %h : tensor<5xf16>
  %b = dt.convert %t : tensor<5xf16> -> tensor<5xbf16>
  %c = dt.convert %b : tensor<5xbf16> -> tensor<5xf32>
  %y = dt.mul %c, %a : tensor<5xf32>)"},
                    Case{"several_uses", one, "5", R"(  %e = dt.exp %a : tensor<5xf32>
  %t = dt.tanh %a : tensor<5xf32>
  %p = dt.mul %e, %t : tensor<5xf32>
  %q = dt.mul %p, %a : tensor<5xf32>
  %y = dt.sub %q, %e : tensor<5xf32>)"}),
    [](const auto &info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Structural, Gradient,
    testing::Values(
        Case{"broadcast", {"3"}, "2x3x2", "  %y = dt.broadcast %a dims [1] : tensor<3xf32> -> tensor<2x3x2xf32>"},
        Case{"reduce", {"2x3x2"}, "3", "  %y = dt.reduce sum %a over [0, 2] : tensor<2x3x2xf32> -> tensor<3xf32>"},
        Case{"reshape", {"2x6"}, "3x4", "  %y = dt.reshape %a : tensor<2x6xf32> -> tensor<3x4xf32>"},
        Case{"transpose",
             {"2x3x4"},
             "4x2x3",
             "  %y = dt.transpose %a by [2, 0, 1] : tensor<2x3x4xf32> -> tensor<4x2x3xf32>"},
        Case{"slice", {"3x4"}, "2x2", "  %y = dt.slice %a at [1, 2] : tensor<3x4xf32> -> tensor<2x2xf32>"},
        Case{"pad", {"2x2"}, "3x4", "  %y = dt.pad %a at [1, 1] : tensor<2x2xf32> -> tensor<3x4xf32>"},
        Case{"concat",
             {"2x1", "2x3"},
             "2x4",
             "  %y = dt.concat %a, %b along 1 : tensor<2x1xf32>, tensor<2x3xf32> -> tensor<2x4xf32>"},
        Case{"concat_of_rows",
             {"3", "2x3", "3"},
             "4x3",
             "  %y = dt.concat %a, %b, %c along 0 : tensor<3xf32>, tensor<2x3xf32>, tensor<3xf32> -> tensor<4x3xf32>"},
        Case{"contract",
             {"2x3x4", "4x2x5"},
             "2x2x3x5",
             "  %y = dt.contract \"bsd,dhe->bhse\" %a, %b : tensor<2x3x4xf32>, tensor<4x2x5xf32> -> "
             "tensor<2x2x3x5xf32>"},
        Case{"contract_batched",
             {"2x3x4", "2x4x5"},
             "5x2x3",
             "  %y = dt.contract \"bmk,bkn->nbm\" %a, %b : tensor<2x3x4xf32>, tensor<2x4x5xf32> -> tensor<5x2x3xf32>"},
        Case{"gather",
             {"4x3"},
             "2x3x3",
             "  %y = dt.gather %a, %i : tensor<4x3xf32>, tensor<2x3xi32> -> tensor<2x3x3xf32>",
             -2,
             2,
             "2x3",
             4},
        Case{"gather_bf16",
             {"4x3"},
             "2x3x3",
             R"(  %t = dt.convert %a : tensor<4x3xf32> -> tensor<4x3xbf16>
  %g = dt.gather %t, %i : tensor<4x3xbf16>, tensor<2x3xi32> -> tensor<2x3x3xbf16>
  %y = dt.convert %g : tensor<2x3x3xbf16> -> tensor<2x3x3xf32>)",
             -2,
             2,
             "2x3",
             4},
        Case{"scatter_add",
             {"4x3", "2x3x3"},
             "4x3",
             "  %y = dt.scatter_add %a, %i, %b : tensor<4x3xf32>, tensor<2x3xi32>, tensor<2x3x3xf32>",
             -2,
             2,
             "2x3",
             4},
        Case{"tag", {"2x3"}, "2x3", "  %y = dt.tag %a \"h\" [\"batch\", \"embed\"] : tensor<2x3xf32>"}),
    [](const auto &info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Composite, Gradient,
    testing::Values(
        Case{"layer_norm", {"2x3x4", "4", "4"}, "2x3x4", R"(  %y, %mean, %rstd = dt.layer_norm %a, %b, %c epsilon 1.0e-5
      : (tensor<2x3x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x3x4xf32>, tensor<2x3xf32>, tensor<2x3xf32>))"},
        Case{"rms_norm", {"2x3x4", "4"}, "2x3x4", R"(  %y, %rstd = dt.rms_norm %a, %b epsilon 1.0e-5
      : (tensor<2x3x4xf32>, tensor<4xf32>) -> (tensor<2x3x4xf32>, tensor<2x3xf32>))"},
        crossEntropy("cross_entropy", "%y, %lse"), crossEntropy("log_sum_exp", "%nll, %y"),
        crossEntropy("cross_entropy_with_z_loss", "%nll, %lse", R"(
  %z = dt.mul %lse, %lse : tensor<2x3xf32>
  %y = dt.add %nll, %z : tensor<2x3xf32>)"),
        Case{"dropout",
             {"2x3x4"},
             "2x3x4",
             "  %y = dt.dropout %a, %key rate 0.5 site 2 : tensor<2x3x4xf32>, tensor<4xi32>"},
        Case{"rotary", {"2x3x2x4"}, "2x3x2x4", R"(  %p = dt.iota 0 : tensor<3xi32>
  %y = dt.rotary %a, %p theta 10.0 : tensor<2x3x2x4xf32>, tensor<3xi32>)"},
        Case{"rotary_inverse", {"2x3x2x4"}, "2x3x2x4", R"(  %p = dt.iota 0 : tensor<3xi32>
  %y = dt.rotary %a, %p theta 10.0 inverse : tensor<2x3x2x4xf32>, tensor<3xi32>)"},
        Case{"rotary_of_some_pairs", {"2x3x2x8"}, "2x3x2x8", R"(  %p = dt.iota 0 : tensor<3xi32>
  %y = dt.rotary %a, %p theta 10.0 pairs 3 scaling <factor = 4.0, per_frequency = 0.5, per_pair = 0.1, constant = 0.1,
      amplitude = 1.25> : tensor<2x3x2x8xf32>, tensor<3xi32>)"},
        Case{"attention_window", qkv, "2x3x2x2x4", attention("0.25", "true", ", window = 2 : i64")},
        Case{"attention_softcap", qkv, "2x3x2x2x4", attention("0.25", "true", ", softcap = 0.75 : f64")},
        Case{"attention", qkv, "2x3x2x2x4", attention("0.0", "false")},
        Case{"attention_causal", qkv, "2x3x2x2x4", attention("0.0", "true")},
        Case{"attention_dropout", qkv, "2x3x2x2x4", attention("0.25", "true")}),
    [](const auto &info) { return info.param.name; });

} // namespace
