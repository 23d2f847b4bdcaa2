// Generated kernels against the reference interpreter: every kind, odd sizes, values that are not finite.
#include "test/passes/lower/support.h"

#include <cmath>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <limits>

using namespace dtc::test;

namespace {

/// Replaces every "$C" by the number of columns.
std::string withColumns(std::string text, int64_t columns) {
  for (size_t at; (at = text.find("$C")) != std::string::npos;)
    text.replace(at, 2, std::to_string(columns));
  return text;
}

class Columns : public testing::TestWithParam<int> {};

// The name is the number of columns: about the vector's width, an odd number of vectors, GPT-2's vocabulary.
INSTANTIATE_TEST_SUITE_P(Sizes, Columns, testing::Values(1, 2, 15, 16, 17, 64, 257, 50257));

} // namespace

TEST_P(Columns, LayerNorm) {
  CompiledKernels kernels(withColumns(R"(
    dt.kernel @norm(%x: tensor<2x3x$Cxf32>, %r: tensor<2x3x$Cxf32>, %scale: tensor<$Cxf32>, %bias: tensor<$Cxf32>)
        -> (tensor<2x3x$Cxf32>, tensor<2x3x$Cxf32>, tensor<2x3xf32>, tensor<2x3xf32>) {
      %sum = dt.add %x, %r : tensor<2x3x$Cxf32>
      %total = dt.reduce sum %sum over [2] : tensor<2x3x$Cxf32> -> tensor<2x3xf32>
      %n = dt.constant dense<0.03125> : tensor<2x3xf32>
      %mean = dt.mul %total, %n : tensor<2x3xf32>
      %meanAll = dt.broadcast %mean dims [0, 1] : tensor<2x3xf32> -> tensor<2x3x$Cxf32>
      %centred = dt.sub %sum, %meanAll : tensor<2x3x$Cxf32>
      %square = dt.mul %centred, %centred : tensor<2x3x$Cxf32>
      %squares = dt.reduce sum %square over [2] : tensor<2x3x$Cxf32> -> tensor<2x3xf32>
      %epsilon = dt.constant dense<1.0e-5> : tensor<2x3xf32>
      %variance = dt.mul %squares, %n : tensor<2x3xf32>
      %safe = dt.add %variance, %epsilon : tensor<2x3xf32>
      %rstd = dt.rsqrt %safe : tensor<2x3xf32>
      %rstdAll = dt.broadcast %rstd dims [0, 1] : tensor<2x3xf32> -> tensor<2x3x$Cxf32>
      %normal = dt.mul %centred, %rstdAll : tensor<2x3x$Cxf32>
      %scaleAll = dt.broadcast %scale dims [2] : tensor<$Cxf32> -> tensor<2x3x$Cxf32>
      %scaled = dt.mul %normal, %scaleAll : tensor<2x3x$Cxf32>
      %biasAll = dt.broadcast %bias dims [2] : tensor<$Cxf32> -> tensor<2x3x$Cxf32>
      %y = dt.add %scaled, %biasAll : tensor<2x3x$Cxf32>
      dt.yield %sum, %y, %mean, %rstd : tensor<2x3x$Cxf32>, tensor<2x3x$Cxf32>, tensor<2x3xf32>, tensor<2x3xf32>
    })",
                                      GetParam()));
  kernels.expectMatch("norm", 4e-6);
}

TEST_P(Columns, Softmax) {
  CompiledKernels kernels(withColumns(R"(
    dt.kernel @softmax(%x: tensor<4x$Cxf32>) -> (tensor<4x$Cxf32>, tensor<4xf32>) {
      %max = dt.reduce max %x over [1] : tensor<4x$Cxf32> -> tensor<4xf32>
      %maxAll = dt.broadcast %max dims [0] : tensor<4xf32> -> tensor<4x$Cxf32>
      %shifted = dt.sub %x, %maxAll : tensor<4x$Cxf32>
      %e = dt.exp %shifted : tensor<4x$Cxf32>
      %sum = dt.reduce sum %e over [1] : tensor<4x$Cxf32> -> tensor<4xf32>
      %sumAll = dt.broadcast %sum dims [0] : tensor<4xf32> -> tensor<4x$Cxf32>
      %y = dt.div %e, %sumAll : tensor<4x$Cxf32>
      %log = dt.log %sum : tensor<4xf32>
      %lse = dt.add %log, %max : tensor<4xf32>
      dt.yield %y, %lse : tensor<4x$Cxf32>, tensor<4xf32>
    })",
                                      GetParam()));
  kernels.expectMatch("softmax");
}

TEST_P(Columns, CrossEntropy) {
  CompiledKernels kernels(withColumns(R"(
    dt.kernel @nll(%x: tensor<2x2x$Cxf32>, %targets: tensor<2x2xi32>) -> tensor<2x2xf32> {
      %columns = dt.iota 2 : tensor<2x2x$Cxi32>
      %targetAll = dt.broadcast %targets dims [0, 1] : tensor<2x2xi32> -> tensor<2x2x$Cxi32>
      %hit = dt.compare eq %columns, %targetAll : tensor<2x2x$Cxi32> -> tensor<2x2x$Cxi1>
      %zeros = dt.constant dense<0.0> : tensor<2x2x$Cxf32>
      %picked = dt.select %hit, %x, %zeros : tensor<2x2x$Cxi1>, tensor<2x2x$Cxf32>
      %logit = dt.reduce sum %picked over [2] : tensor<2x2x$Cxf32> -> tensor<2x2xf32>
      %e = dt.exp %x : tensor<2x2x$Cxf32>
      %sum = dt.reduce sum %e over [2] : tensor<2x2x$Cxf32> -> tensor<2x2xf32>
      %lse = dt.log %sum : tensor<2x2xf32>
      %nll = dt.sub %lse, %logit : tensor<2x2xf32>
      %ignored = dt.constant dense<3> : tensor<2x2xi32>
      %valid = dt.compare ne %targets, %ignored : tensor<2x2xi32> -> tensor<2x2xi1>
      %zero = dt.constant dense<0.0> : tensor<2x2xf32>
      %loss = dt.select %valid, %nll, %zero : tensor<2x2xi1>, tensor<2x2xf32>
      dt.yield %loss : tensor<2x2xf32>
    })",
                                      GetParam()));
  kernels.expectMatch("nll");
}

TEST_P(Columns, ElementwiseFunctions) {
  CompiledKernels kernels(withColumns(R"(
    dt.kernel @functions(%x: tensor<3x$Cxf32>)
        -> (tensor<3x$Cxf32>, tensor<3x$Cxf32>, tensor<3x$Cxf32>, tensor<3x$Cxf32>, tensor<3x$Cxf32>, tensor<3x$Cxf32>) {
      %gelu = dt.gelu %x : tensor<3x$Cxf32>
      %tanh = dt.gelu %x tanh : tensor<3x$Cxf32>
      %silu = dt.silu %x : tensor<3x$Cxf32>
      %a = dt.tanh %x : tensor<3x$Cxf32>
      %b = dt.logistic %x : tensor<3x$Cxf32>
      %e = dt.exp %x : tensor<3x$Cxf32>
      %log = dt.log %e : tensor<3x$Cxf32>
      dt.yield %gelu, %tanh, %silu, %a, %b, %log : tensor<3x$Cxf32>, tensor<3x$Cxf32>, tensor<3x$Cxf32>,
          tensor<3x$Cxf32>, tensor<3x$Cxf32>, tensor<3x$Cxf32>
    })",
                                      GetParam()));
  kernels.expectMatch("functions");
}

TEST_P(Columns, GradientsOfGelu) {
  CompiledKernels kernels(withColumns(R"(
    dt.kernel @gradients(%g: tensor<3x$Cxf32>, %x: tensor<3x$Cxf32>)
        -> (tensor<3x$Cxf32>, tensor<3x$Cxf32>) {
      %exact = dt.gelu_grad %g, %x : tensor<3x$Cxf32>
      %tanh = dt.gelu_grad %g, %x tanh : tensor<3x$Cxf32>
      dt.yield %exact, %tanh : tensor<3x$Cxf32>, tensor<3x$Cxf32>
    })",
                                      GetParam()));
  kernels.expectMatch("gradients");
}

TEST_P(Columns, ScaleGradients) {
  // Columns kind: reductions over the rows, then additions to what was accumulated before.
  CompiledKernels kernels(withColumns(R"(
    dt.kernel @gradients(%dy: tensor<5x7x$Cxf32>, %x: tensor<5x7x$Cxf32>, %mean: tensor<5x7xf32>, %before: tensor<$Cxf32>)
        -> (tensor<$Cxf32>, tensor<$Cxf32>, tensor<$Cxf32>) {
      %meanAll = dt.broadcast %mean dims [0, 1] : tensor<5x7xf32> -> tensor<5x7x$Cxf32>
      %centred = dt.sub %x, %meanAll : tensor<5x7x$Cxf32>
      %product = dt.mul %dy, %centred : tensor<5x7x$Cxf32>
      %scale = dt.reduce sum %product over [0, 1] : tensor<5x7x$Cxf32> -> tensor<$Cxf32>
      %bias = dt.reduce sum %dy over [0, 1] : tensor<5x7x$Cxf32> -> tensor<$Cxf32>
      %next = dt.add %before, %bias : tensor<$Cxf32>
      %max = dt.reduce max %x over [0, 1] : tensor<5x7x$Cxf32> -> tensor<$Cxf32>
      dt.yield %scale, %next, %max : tensor<$Cxf32>, tensor<$Cxf32>, tensor<$Cxf32>
    })",
                                      GetParam()));
  kernels.expectMatch("gradients", 1e-5);
}

TEST_P(Columns, SumOfEverything) {
  CompiledKernels kernels(withColumns(R"(
    dt.kernel @flat(%x: tensor<3x$Cxf32>, %before: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
      %square = dt.mul %x, %x : tensor<3x$Cxf32>
      %sum = dt.reduce sum %square over [0, 1] : tensor<3x$Cxf32> -> tensor<f32>
      %next = dt.add %sum, %before : tensor<f32>
      %max = dt.reduce max %x over [0, 1] : tensor<3x$Cxf32> -> tensor<f32>
      dt.yield %next, %max : tensor<f32>, tensor<f32>
    }
    dt.kernel @total(%x: tensor<3x4x$Cxf32>, %weight: tensor<3xf32>) -> tensor<f32> {
      %all = dt.broadcast %weight dims [0] : tensor<3xf32> -> tensor<3x4x$Cxf32>
      %product = dt.mul %x, %all : tensor<3x4x$Cxf32>
      %sum = dt.reduce sum %product over [0, 1, 2] : tensor<3x4x$Cxf32> -> tensor<f32>
      dt.yield %sum : tensor<f32>
    }
    dt.kernel @middle(%x: tensor<3x4x$Cxf32>) -> tensor<4xf32> {
      %sum = dt.reduce sum %x over [0, 2] : tensor<3x4x$Cxf32> -> tensor<4xf32>
      dt.yield %sum : tensor<4xf32>
    }
    dt.kernel @between(%x: tensor<3x4x$Cxf32>) -> tensor<3x$Cxf32> {
      %sum = dt.reduce sum %x over [1] : tensor<3x4x$Cxf32> -> tensor<3x$Cxf32>
      dt.yield %sum : tensor<3x$Cxf32>
    })",
                                      GetParam()));
  for (const char *name : {"flat", "total", "middle", "between"})
    kernels.expectMatch(name, 2e-6);
}

TEST_P(Columns, AdamW) {
  const char *text = R"(
    dt.kernel @update(%p: tensor<3x$Cxf32>, %g: tensor<3x$Cxf32>, %m: tensor<3x$Cxf32>, %v: tensor<3x$Cxf32>,
        %rate: tensor<f32>) -> (tensor<3x$Cxf32>, tensor<3x$Cxf32>, tensor<3x$Cxf32>) {
      %beta = dt.constant dense<0.9> : tensor<3x$Cxf32>
      %rest = dt.constant dense<0.1> : tensor<3x$Cxf32>
      %m0 = dt.mul %m, %beta : tensor<3x$Cxf32>
      %m1 = dt.mul %g, %rest : tensor<3x$Cxf32>
      %m2 = dt.add %m0, %m1 : tensor<3x$Cxf32>
      %square = dt.mul %g, %g : tensor<3x$Cxf32>
      %magnitude = dt.mul %v, %v : tensor<3x$Cxf32>
      %v0 = dt.mul %magnitude, %beta : tensor<3x$Cxf32>
      %v1 = dt.mul %square, %rest : tensor<3x$Cxf32>
      %v2 = dt.add %v0, %v1 : tensor<3x$Cxf32>
      %root = dt.sqrt %v2 : tensor<3x$Cxf32>
      %epsilon = dt.constant dense<1.0e-3> : tensor<3x$Cxf32>
      %safe = dt.add %root, %epsilon : tensor<3x$Cxf32>
      %direction = dt.div %m2, %safe : tensor<3x$Cxf32>
      %rateAll = dt.broadcast %rate dims [] : tensor<f32> -> tensor<3x$Cxf32>
      %step = dt.mul %direction, %rateAll : tensor<3x$Cxf32>
      %p2 = dt.sub %p, %step : tensor<3x$Cxf32>
      dt.yield %p2, %m2, %v2 : tensor<3x$Cxf32>, tensor<3x$Cxf32>, tensor<3x$Cxf32>
    })";
  CompiledKernels kernels(withColumns(text, GetParam()));
  kernels.expectMatch("update");
  auto interface = dtc::describe(kernels.kernel("update"));
  ASSERT_EQ(interface->inPlace.size(), 3u);
  for (auto &inputs : interface->inPlace) // any of p, g, m, v; not the rate
    EXPECT_EQ(inputs, (llvm::SmallVector<unsigned>{0, 1, 2, 3}));
}
