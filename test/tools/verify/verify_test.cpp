// `verify` on a model small enough to compile by hand: loss = sum over samples and positions of tokens * w, two ranks
// split the samples.
#include "test/runtime/program/manifests.h"
#include "tools/verify/Shrunk.h"
#include "tools/verify/StepData.h"
#include "tools/verify/Verify.h"

#include "dialect/IR/Ops.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"
#include "runtime/abi/groups.h"
#include "runtime/support/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using testing::AllOf;
using testing::HasSubstr;

namespace dtc::verify {
namespace {

constexpr const char *logicalText = R"(
func.func @micro(%w: tensor<4xf32> {dt.port = #dt.port<parameter "w">},
                 %tokens: tensor<4x4xi32> {dt.port = #dt.port<input "tokens" from tokens>})
    -> (tensor<f32> {dt.port = #dt.port<share "micro_loss_sum", partial>},
        tensor<4xf32> {dt.port = #dt.port<gradient "w", partial>}) {
  %x = dt.convert %tokens : tensor<4x4xi32> -> tensor<4x4xf32>
  %g = dt.reduce sum %x over [0] : tensor<4x4xf32> -> tensor<4xf32>
  %p = dt.mul %g, %w : tensor<4xf32>
  %l = dt.reduce sum %p over [0] : tensor<4xf32> -> tensor<f32>
  return %l, %g : tensor<f32>, tensor<4xf32>
}
func.func @reduce(%l: tensor<f32> {dt.port = #dt.port<share "micro_loss_sum", partial>},
                  %g: tensor<4xf32> {dt.port = #dt.port<gradient "w", partial>})
    -> (tensor<f32> {dt.port = #dt.port<output "loss_sum">},
        tensor<4xf32> {dt.port = #dt.port<reduced_gradient "w">}) {
  return %l, %g : tensor<f32>, tensor<4xf32>
}
func.func @update(%w: tensor<4xf32> {dt.port = #dt.port<parameter "w">},
                  %g: tensor<4xf32> {dt.port = #dt.port<reduced_gradient "w">})
    -> (tensor<4xf32> {dt.port = #dt.port<parameter "w">}) {
  %0 = dt.sub %w, %g : tensor<4xf32>
  return %0 : tensor<4xf32>
})";

constexpr const char *gradientKernel = R"(
dt.kernel @gradient(%tokens: tensor<2x4xi32>) -> tensor<4xf32> {
  %x = dt.convert %tokens : tensor<2x4xi32> -> tensor<2x4xf32>
  %g = dt.reduce sum %x over [0] : tensor<2x4xf32> -> tensor<4xf32>
  dt.yield %g : tensor<4xf32>
})";

constexpr const char *lossKernel = R"(
dt.kernel @loss(%g: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<f32> {
  %p = dt.mul %g, %w : tensor<4xf32>
  %l = dt.reduce sum %p over [0] : tensor<4xf32> -> tensor<f32>
  dt.yield %l : tensor<f32>
})";

constexpr const char *updateKernel = R"(
dt.kernel @update(%w: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> {
  %0 = dt.sub %w, %g : tensor<4xf32>
  dt.yield %0 : tensor<4xf32>
})";

// Offsets in the arena.
constexpr uint64_t w = 0, tokens = 16, microLoss = 48, gradient = 52, lossSum = 68, reduced = 72, arenaBytes = 88;

class Verify : public testing::Test {
protected:
  Verify() {
    context.loadDialect<mlir::dt::DTDialect, mlir::func::FuncDialect>();
    module = mlir::parseSourceString<mlir::ModuleOp>(logicalText, &context);
    abi::Axis *axis = manifest.mutable_mesh()->add_axes();
    axis->set_name("dp");
    axis->set_size(2);
    abi::Symbol *vocabulary = manifest.add_symbols();
    vocabulary->set_name("vocab");
    vocabulary->set_size(11);
    manifest.add_locations("head");

    test::setArena(*manifest.add_roles(), arenaBytes);
    addTensor("w", abi::Tensor::PARAMETER, w, {4});
    addTensor("tokens", abi::Tensor::INPUT, tokens, {2, 4}).mutable_dims(0)->add_axes()->CopyFrom(dp());
    manifest.mutable_roles(0)->mutable_tensors(1)->add_global_shape(4);
    manifest.mutable_roles(0)->mutable_tensors(1)->add_global_shape(4);
    manifest.mutable_roles(0)->mutable_tensors(1)->mutable_source()->set_kind(abi::Source::TOKENS);
    addPartialSum(addTensor("micro_loss_sum", abi::Tensor::OUTPUT, microLoss, {}));
    addPartialSum(addTensor("w", abi::Tensor::GRADIENT, gradient, {4}));
    addTensor("loss_sum", abi::Tensor::OUTPUT, lossSum, {});
    addTensor("w", abi::Tensor::REDUCED_GRADIENT, reduced, {4});

    for (const char *list : {"micro", "reduce", "update"}) {
      test::addList(manifest, list);
      test::addEntry(*manifest.mutable_roles(0), abi::stepTimetable, list);
    }
    launch(0, gradientKernel, {tokens}, {32}, {gradient}, {16}).set_grid(1);
    abi::Launch &loss = launch(0, lossKernel, {gradient, w}, {16, 16}, {microLoss}, {4});
    loss.set_grid(1);
    loss.add_scalars()->set_value(4);
    allReduce(microLoss, lossSum, 1, "micro_loss_sum");
    allReduce(gradient, reduced, 4, "gradient of w");
    abi::Launch &update = launch(2, updateKernel, {w, reduced}, {16, 16}, {w}, {16});
    update.set_grid(4);
    update.add_scalars()->set_value(4);
  }

  static abi::AxisRef dp() { return test::wholeAxis("dp", 2); }

  static void addPartialSum(abi::Sharding &sharding) {
    *sharding.add_partial() = dp();
    sharding.add_reductions(abi::SUM);
  }

  abi::Sharding &addTensor(const char *name, abi::Tensor::Kind kind, uint64_t offset, std::vector<int64_t> shape) {
    abi::Tensor *tensor = manifest.mutable_roles(0)->add_tensors();
    tensor->set_name(name);
    tensor->set_kind(kind);
    tensor->set_address(offset);
    for (int64_t size : shape) {
      tensor->add_local_shape(size);
      tensor->mutable_sharding()->add_dims();
    }
    return *tensor->mutable_sharding();
  }

  abi::Launch &launch(int list, const char *reference, std::vector<uint64_t> inputs, std::vector<uint64_t> inputBytes,
                      std::vector<uint64_t> outputs, std::vector<uint64_t> outputBytes) {
    abi::Launch *launch = manifest.mutable_lists(list)->add_commands()->mutable_launch();
    launch->set_kernel(manifest.kernels_size());
    abi::Kernel *kernel = manifest.add_kernels();
    std::string text = reference;
    size_t begin = text.find('@') + 1;
    kernel->set_symbol(text.substr(begin, text.find('(') - begin));
    kernel->set_reference(text);
    kernel->set_inputs(inputs.size());
    kernel->set_outputs(outputs.size());
    for (auto *offsets : {&inputs, &outputs})
      launch->mutable_buffers()->Add(offsets->begin(), offsets->end());
    for (auto *bytes : {&inputBytes, &outputBytes})
      launch->mutable_buffer_bytes()->Add(bytes->begin(), bytes->end());
    // As the kernel's signature says: arguments, then results.
    std::string signature = text.substr(0, text.find('{'));
    for (size_t at = 0; (at = signature.find("tensor<", at)) != std::string::npos; ++at)
      launch->add_buffer_types(signature.substr(at, signature.find('>', at) - at).ends_with("i32") ? abi::I32
                                                                                                   : abi::F32);
    launch->set_grain(1);
    return *launch;
  }

  void allReduce(uint64_t from, uint64_t to, int64_t size, const char *value) {
    abi::CommandList *list = manifest.mutable_lists(1);
    abi::Collective *start = list->add_commands()->mutable_start();
    abi::AxisRefs axes;
    *axes.Add() = dp();
    start->set_group(test::findOrAddGroup(manifest, axes));
    start->set_input(from);
    start->set_output(to);
    start->set_outer(1);
    start->set_chunk(size);
    start->set_value(value);
    list->add_commands()->mutable_wait();
  }

  abi::CommandList &list(int index) { return *manifest.mutable_lists(index); }

  VerifyReport check() { return verify(Expectation(*module, manifest.roles(0), vocabularyOf(manifest)), manifest); }
  std::string failure() { return check().failure; }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  abi::Manifest manifest;
};

TEST_F(Verify, AgreesOnEveryResultOfEveryList) {
  VerifyReport report = check();
  EXPECT_EQ(report.failure, "");
  std::vector<std::string> tensors;
  for (const Comparison &comparison : report.comparisons)
    tensors.push_back(comparison.list + ": " + comparison.tensor);
  EXPECT_THAT(tensors, testing::ElementsAre("micro: micro_loss_sum", "micro: gradient of w", "reduce: loss_sum",
                                            "reduce: reduced_gradient of w", "update: parameter of w",
                                            // and the second draw
                                            "micro: micro_loss_sum", "micro: gradient of w", "reduce: loss_sum",
                                            "reduce: reduced_gradient of w", "update: parameter of w"));
}

TEST_F(Verify, TellsHowFarItIs) {
  std::vector<double> parts;
  verify(Expectation(*module, manifest.roles(0), vocabularyOf(manifest)), manifest, f64Tolerance,
         [&](double part) { parts.push_back(part); });
  ASSERT_GT(parts.size(), 8U);
  for (size_t i = 0; i < parts.size(); ++i)
    EXPECT_DOUBLE_EQ(parts[i], static_cast<double>(i + 1) / static_cast<double>(parts.size()));
}

TEST_F(Verify, NamesTheTensorAndTheCollectiveBehindIt) {
  list(1).mutable_commands(2)->mutable_start()->set_reduction(abi::MAX);
  EXPECT_THAT(failure(), AllOf(HasSubstr("after list 'reduce': reduced_gradient of w differs by"),
                               HasSubstr("the collective behind it is the all-reduce (max) of gradient of w over dp at "
                                         "head (list 'reduce', command 2)")));
}

TEST_F(Verify, FollowsKernelsBackToTheirCollective) {
  std::string wrong = updateKernel;
  manifest.mutable_kernels(2)->set_reference(wrong.replace(wrong.find("dt.sub"), 6, "dt.add"));
  EXPECT_THAT(failure(), AllOf(HasSubstr("parameter of w differs"), HasSubstr("gradient of w over dp at head")));
}

TEST_F(Verify, OnePartInTenMillionIsADifference) {
  std::string wrong = updateKernel;
  wrong.replace(wrong.find("%0 = dt.sub %w, %g"), 18, R"(%s = dt.constant dense<1.0000001> : tensor<4xf32>
  %h = dt.mul %g, %s : tensor<4xf32>
  %0 = dt.sub %w, %h)");
  manifest.mutable_kernels(2)->set_reference(wrong);
  EXPECT_THAT(failure(), HasSubstr("after list 'update': parameter of w differs by"));
}

/// A gradient of 1e-16, which rounding leaves where it is zero, moves a parameter by the last bit or not at all.
TEST_F(Verify, UpdatesLostInRoundingAreNoDifference) {
  auto smaller = [](std::string text, const char *update) {
    std::string tiny = "%c = dt.constant dense<1.0e-18> : tensor<4xf32>\n  %h = dt.mul %g, %c : tensor<4xf32>\n  ";
    return text.replace(text.find("%0 = dt.sub %w, %g"), 18, tiny + update);
  };
  module = mlir::parseSourceString<mlir::ModuleOp>(smaller(logicalText, "%0 = dt.sub %w, %h"), &context);
  manifest.mutable_kernels(2)->set_reference(smaller(updateKernel, R"(%most = dt.constant dense<0.9> : tensor<4xf32>
  %some = dt.constant dense<0.1> : tensor<4xf32>
  %all = dt.add %most, %some : tensor<4xf32>
  %a = dt.mul %w, %most : tensor<4xf32>
  %b = dt.mul %w, %some : tensor<4xf32>
  %d = dt.add %a, %b : tensor<4xf32>
  %e = dt.div %d, %all : tensor<4xf32>
  %0 = dt.sub %e, %h)"));
  VerifyReport report = check();
  EXPECT_EQ(report.failure, "");
  EXPECT_TRUE(llvm::any_of(report.comparisons, [](const Comparison &each) {
    return each.list == "update" && each.error > 0;
  })) << "nothing was rounded otherwise";
}

TEST_F(Verify, SaysWhenNoCollectiveIsBehindADifference) {
  list(1).mutable_commands()->DeleteSubrange(2, 2);
  EXPECT_THAT(failure(),
              AllOf(HasSubstr("reduced_gradient of w differs by nan"), HasSubstr("no collective is behind")));
}

TEST_F(Verify, ReplicasThatDifferAreADisagreement) {
  // Without its reduction the loss stays each rank's own.
  abi::Group &alone = *manifest.add_groups();
  *alone.add_axes() = dp();
  alone.mutable_axes(0)->set_size(1);
  list(1).mutable_commands(0)->mutable_start()->set_group(1);
  EXPECT_THAT(failure(),
              AllOf(HasSubstr("loss_sum"), HasSubstr("ranks 0 and 1 should hold the same piece but differ")));
}

TEST_F(Verify, BothDrawsCount) {
  VerifyReport report = check();
  ASSERT_EQ(report.comparisons.size() % Expectation::draws, 0U);
  // The same tensors, other numbers.
  EXPECT_NE(report.comparisons.front().bound, report.comparisons[report.comparisons.size() / 2].bound);
}

TEST(StepData, NoTargetIsIgnoredInBothOfTwoDraws) {
  mlir::MLIRContext context;
  context.loadDialect<mlir::dt::DTDialect>();
  LogicalProgram::Port targets = {{mlir::dt::PortKind::Input, "labels", ""},
                                  mlir::RankedTensorType::get({4, 16}, mlir::IntegerType::get(&context, 32)),
                                  mlir::dt::SourceAttr::get(&context, mlir::dt::SourceKind::NextTokens, {})};
  for (int64_t microBatch : {0, 1}) {
    auto first = makeInput(targets, microBatch, 4, 11, 0), second = makeInput(targets, microBatch, 4, 11, 1);
    int64_t ignored = 0;
    for (int64_t i = 0; i < first.size(); ++i) {
      EXPECT_FALSE(first[i] == -100 && second[i] == -100) << i;
      ignored += first[i] == -100 || second[i] == -100;
    }
    EXPECT_GT(ignored, 4); // of 64, two thirds of which may be
  }
}

TEST_F(Verify, AProgramOfAnotherModelIsBadInput) {
  manifest.mutable_roles(0)->mutable_tensors(4)->set_name("loss");
  EXPECT_THROW(failure(), Error);
}

TEST_F(Verify, ShrunkAndFullProgramsRunTheSameCollectives) {
  abi::Manifest full = manifest;
  full.mutable_lists(1)->mutable_commands(2)->mutable_start()->set_chunk(4096);
  EXPECT_EQ(compareCollectives(manifest, full), "");
  full.mutable_lists(1)->mutable_commands(2)->mutable_start()->set_kind(abi::Collective::REDUCE_SCATTER);
  EXPECT_EQ(compareCollectives(manifest, full),
            "list 'reduce', collective 1: the shrunk program has all-reduce of gradient of w over dp at head, the full "
            "one reduce-scatter of gradient of w over dp at head");
  full.mutable_lists(1)->mutable_commands()->DeleteSubrange(2, 2);
  EXPECT_THAT(compareCollectives(manifest, full), HasSubstr("the full one no more"));
}

} // namespace
} // namespace dtc::verify
