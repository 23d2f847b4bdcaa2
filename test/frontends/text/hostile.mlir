// Text that parses but is no model is refused, not trusted.

// RUN: split-file %s %t
// RUN: sh -c 'dtc compile %t/permutation.mlir --compile-to model; test $? = 3' 2>&1 | FileCheck %s --check-prefix=PERMUTATION
// RUN: sh -c 'dtc compile %t/type.mlir --compile-to model; test $? = 3' 2>&1 | FileCheck %s --check-prefix=TYPE
// RUN: sh -c 'dtc compile %t/vocabulary.mlir --compile-to model; test $? = 3' 2>&1 | FileCheck %s --check-prefix=VOCABULARY
// PERMUTATION: parameter 'w': factored must have the elements of file
// TYPE: argument 0 of @loss (w) must be a tensor of f32
// VOCABULARY: dt.symbols must say the size of the vocabulary

//--- permutation.mlir
#w = #dt.param<"w", file = [4], factored = [4], permutation = [7], dims = ["embed"], init = "zeros", stddev = 0.0 : f64, decays = false>
module attributes {dt.model = "m", dt.symbols = {vocab = 3 : i64}, dt.parameters = [#w]} {
  func.func @loss(%w: tensor<4xf32>, %tokens: tensor<1x2xi32>, %targets: tensor<1x2xi32>, %key: tensor<4xi32>) -> (tensor<f32>, tensor<f32>) {
    %sum = dt.reduce sum %w over [0] : tensor<4xf32> -> tensor<f32>
    return %sum, %sum : tensor<f32>, tensor<f32>
  }
}

//--- type.mlir
#w = #dt.param<"w", file = [4], factored = [4], permutation = [0], dims = ["embed"], init = "zeros", stddev = 0.0 : f64, decays = false>
module attributes {dt.model = "m", dt.symbols = {vocab = 3 : i64}, dt.parameters = [#w]} {
  func.func @loss(%w: f32 {dt.port = #dt.port<parameter "w">}, %tokens: tensor<1x2xi32>, %targets: tensor<1x2xi32>, %key: tensor<4xi32>) -> (tensor<f32>, tensor<f32>) {
    %sum = dt.constant dense<0.0> : tensor<f32>
    return %sum, %sum : tensor<f32>, tensor<f32>
  }
}

//--- vocabulary.mlir
module attributes {dt.model = "m", dt.symbols = {}, dt.parameters = []} {
  func.func @loss(%tokens: tensor<1x2xi32>, %targets: tensor<1x2xi32>, %key: tensor<4xi32>) -> (tensor<f32>, tensor<f32>) {
    %sum = dt.constant dense<0.0> : tensor<f32>
    return %sum, %sum : tensor<f32>, tensor<f32>
  }
}
