// Which launches become one command, and what that command states.
#include "passes/schedule/emit/EmitManifest.h"
#include "test/passes/schedule/plan.h"

#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace mlir;
using namespace mlir::dt;
using testing::ElementsAre;

namespace dtc {
namespace {

// A place is a multiple of 64 bytes: 16 or 32 elements fill theirs, 17 leave a gap.
constexpr const char *vector = "tensor<16xf32>", *matrix = "tensor<4x8xf32>";

/// x times a number that all elements share, times a factor: another kernel for each shape, formula and name.
std::string scaling(const char *name, std::string type, const char *factor) {
  return "dt.kernel @" + std::string(name) + "(%x: " + type + ", %s: tensor<f32>) -> " + type + " {\n" + factor +
         "  %a = dt.broadcast %s dims [] : tensor<f32> -> " + type + "\n  %m = dt.mul %x, %a : " + type +
         "\n  %y = dt.mul %m, %c : " + type + "\n  dt.yield %y : " + type + "\n}\n";
}

std::string kernels() {
  return scaling("scale_0", vector, "  %c = dt.constant dense<0.5> : tensor<16xf32>\n") +
         scaling("scale_1", matrix, "  %c = dt.constant dense<0.5> : tensor<4x8xf32>\n") +
         scaling("halve_other", vector, "  %c = dt.constant dense<0.25> : tensor<16xf32>\n") +
         scaling("numbered", vector,
                 "  %i = dt.iota 0 : tensor<16xi32>\n  %c = dt.convert %i : tensor<16xi32> -> tensor<16xf32>\n");
}

class JoinedLaunchesTest : public testing::Test {
protected:
  /// Parameters p0, p1, ... of these types, the scalars s and t, and this body, which gives each parameter its new
  /// value.
  void emit(ArrayRef<std::string> types, const std::string &body, ArrayRef<std::string> results,
            const std::string &parameters = "") {
    std::string arguments, resultTypes, names, values;
    for (size_t i = 0; i < types.size(); ++i) {
      std::string number = std::to_string(i), port = "{dt.port = #dt.port<parameter \"p" + number + "\">}";
      arguments += "%p" + number + ": " + types[i] + " " + port + ", ";
      resultTypes += (i ? ", " : "") + types[i] + " " + port;
      names += (i ? ", " : "") + results[i];
      values += (i ? ", " : "") + types[i];
    }
    std::string text = "module attributes {dt.mesh = #dt.mesh<\"dp\" = 2>" + parameters + "} {\n" + kernels() +
                       "func.func @update(" + arguments +
                       "%s: tensor<f32> {dt.port = #dt.port<input \"s\">}, %t: tensor<f32> {dt.port = #dt.port<input "
                       "\"t\">}) -> (" +
                       resultTypes + ") {\n" + body + "  return " + names + " : " + values + "\n}\n}\n";
    context.loadDialect<DTDialect, func::FuncDialect>();
    module = parseSourceString<ModuleOp>(text, &context);
    ASSERT_TRUE(module) << text;
    FailureOr<ArenaLayout> plan = test::planMemory(*module);
    ASSERT_TRUE(succeeded(plan));
    ASSERT_TRUE(succeeded(emitManifest(*module, manifest)));
  }
  static std::string launch(const std::string &result, const std::string &kernel, const std::string &operand,
                            const std::string &type = vector, const std::string &scalar = "s") {
    return "  " + result + " = dt.launch @" + kernel + "(" + operand + ", %" + scalar + ") : (" + type +
           ", tensor<f32>) -> " + type + "\n";
  }
  /// y0 of p0, and so on.
  static std::string scale(int number, const char *type, const char *kernel = "scale_0", const char *scalar = "s") {
    std::string n = std::to_string(number);
    return launch("%y" + n, kernel, "%p" + n, type, scalar);
  }
  /// Bytes that each launch writes, in order.
  std::vector<uint64_t> written() const {
    std::vector<uint64_t> bytes;
    for (const abi::Command &command : manifest.lists(0).commands())
      if (command.has_launch())
        bytes.push_back(*command.launch().buffer_bytes().rbegin());
    return bytes;
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  abi::Manifest manifest;
};

TEST_F(JoinedLaunchesTest, OfAnyShapesAreOneLaunchOverAllElements) {
  emit({vector, matrix, vector}, scale(0, vector) + scale(1, matrix, "scale_1") + scale(2, vector),
       {"%y0", "%y1", "%y2"});
  ASSERT_THAT(written(), ElementsAre(256));
  const abi::Launch &launch = manifest.lists(0).commands(0).launch();
  EXPECT_THAT(launch.buffer_bytes(), ElementsAre(256, 4, 256));
  EXPECT_EQ(launch.buffers(0), launch.buffers(2)) << "in place";
  EXPECT_EQ(launch.scalars(0).value(), 64) << "elements";
  const abi::Kernel &kernel = manifest.kernels(int(launch.kernel()));
  EXPECT_EQ(kernel.symbol(), "scale_0") << "whose code it is";
  EXPECT_THAT(kernel.reference(), testing::HasSubstr("@scale_0(%arg0: tensor<64xf32>, %arg1: tensor<f32>)"));
  EXPECT_THAT(kernel.reference(), testing::HasSubstr("dense<5.000000e-01> : tensor<64xf32>"));
}

TEST_F(JoinedLaunchesTest, AreThoseOfOneFormula) {
  emit({vector, vector}, scale(0, vector) + scale(1, vector, "halve_other"), {"%y0", "%y1"});
  EXPECT_THAT(written(), ElementsAre(64, 64));
}

TEST_F(JoinedLaunchesTest, AreThoseOfTheSameNumbers) {
  emit({vector, vector, vector}, scale(0, vector) + scale(1, vector, "scale_0", "t") + scale(2, vector, "scale_0", "t"),
       {"%y0", "%y1", "%y2"});
  EXPECT_THAT(written(), ElementsAre(64, 128));
}

TEST_F(JoinedLaunchesTest, NeitherSkipAGapNorChangeTheOrder) {
  emit({vector, "tensor<17xf32>", vector, vector},
       scale(0, vector) + scale(3, vector) + scale(2, vector) + "  %y1 = dt.copy %p1 : tensor<17xf32>\n",
       {"%y0", "%y1", "%y2", "%y3"});
  EXPECT_THAT(written(), testing::Contains(64).Times(3));
}

// What is written is adjacent, what is read is not.
TEST_F(JoinedLaunchesTest, ReadWithoutAGap) {
  emit({vector, vector, vector, vector, vector}, launch("%y3", "scale_0", "%p0") + launch("%y4", "scale_0", "%p2"),
       {"%p0", "%p1", "%p2", "%y3", "%y4"});
  EXPECT_THAT(written(), ElementsAre(64, 64));
}

TEST_F(JoinedLaunchesTest, AreNotThoseThatKnowTheirElementsNumbers) {
  emit({vector, vector}, scale(0, vector, "numbered") + scale(1, vector, "numbered"), {"%y0", "%y1"});
  EXPECT_THAT(written(), ElementsAre(64, 64));
}

// From p0 to p2 and from p1 to p3 would fit, but p1 gets a new value in between.
TEST_F(JoinedLaunchesTest, WaitForWhatTheyRead) {
  emit({vector, vector, vector, vector},
       launch("%y2", "scale_0", "%p0") + launch("%y1", "halve_other", "%p1") + launch("%y3", "scale_0", "%y1"),
       {"%p0", "%y1", "%y2", "%y3"});
  EXPECT_THAT(written(), ElementsAre(64, 64, 64));
}

// Likewise, but the old value of p3 is read in between.
TEST_F(JoinedLaunchesTest, WaitForWhoReadsWhatTheyWrite) {
  emit({vector, vector, vector, vector},
       launch("%y2", "scale_0", "%p0") + launch("%y0", "halve_other", "%p3") + launch("%y3", "scale_0", "%p1"),
       {"%y0", "%p1", "%y2", "%y3"});
  EXPECT_THAT(written(), ElementsAre(64, 64, 64));
}

// A reader of p3 before does not hide one in between.
TEST_F(JoinedLaunchesTest, WaitForTheLastThatReadsWhatTheyWrite) {
  emit({vector, vector, vector, vector, vector, vector},
       launch("%y4", "halve_other", "%p3") + launch("%y2", "scale_0", "%p0") + launch("%y5", "numbered", "%p3") +
           launch("%y3", "scale_0", "%p1"),
       {"%p0", "%p1", "%y2", "%y3", "%y4", "%y5"});
  EXPECT_THAT(written(), ElementsAre(64, 64, 64, 64));
}

// Parameters without decay come last, so p0 and p2 are adjacent.
TEST_F(JoinedLaunchesTest, AreMoreAsWhatDecaysLiesSideBySide) {
  auto parameter = [](const std::string &name, const char *decays) {
    return "#dt.param<\"" + name + "\", file = [16], factored = [16], permutation = [0], dims = [\"embed\"], " +
           "init = \"ones\", stddev = 0.0 : f64, decays = " + decays + ">";
  };
  emit({vector, vector, vector, vector},
       scale(0, vector) + scale(1, vector, "halve_other") + scale(2, vector) + scale(3, vector, "halve_other"),
       {"%y0", "%y1", "%y2", "%y3"},
       ", dt.parameters = [" + parameter("p0", "true") + ", " + parameter("p1", "false") + ", " +
           parameter("p2", "true") + ", " + parameter("p3", "false") + "]");
  EXPECT_THAT(written(), ElementsAre(128, 128));
}

} // namespace
} // namespace dtc
