// Text that parses but is not a model is refused, not trusted.

// RUN: split-file %s %t
// RUN: sh -c 'dtc compile %t/permutation.mlir --compile-to model; test $? = 3' 2>&1 | FileCheck %s --check-prefix=PERMUTATION
// RUN: sh -c 'dtc compile %t/type.mlir --compile-to model; test $? = 3' 2>&1 | FileCheck %s --check-prefix=TYPE
// RUN: sh -c 'dtc compile %t/vocabulary.mlir --compile-to model; test $? = 3' 2>&1 | FileCheck %s --check-prefix=VOCABULARY
// PERMUTATION: parameter 'w': factored must have the elements of file
// TYPE: argument 0 of @loss (w) must be a tensor of f32
// VOCABULARY: dt.symbols must say the size of the vocabulary
// RUN: sh -c 'dtc compile %t/nowhere.mlir --compile-to model; test $? = 3' 2>&1 | FileCheck %s --check-prefix=NOWHERE
// NOWHERE: argument 1 of @loss must be an input that says its source: dt.port = #dt.port<input "NAME" from tokens>, or from next_tokens or key
// RUN: sh -c 'dtc compile %t/scalar.mlir --compile-to model; test $? = 3' 2>&1 | FileCheck %s --check-prefix=SCALAR
// SCALAR: argument 0 of @loss must be an input that says its source
// RUN: sh -c 'dtc compile %t/shapes.mlir --compile-to model; test $? = 3' 2>&1 | FileCheck %s --check-prefix=SHAPES
// SHAPES: argument 1 of @loss (labels) must be a tensor [batch, sequence] of i32, as all inputs of tokens
// RUN: sh -c 'dtc compile %t/key.mlir --compile-to model; test $? = 3' 2>&1 | FileCheck %s --check-prefix=KEY
// KEY: argument 0 of @loss (k, from key) must be a tensor<4xi32>
// RUN: sh -c 'dtc compile %t/nothing.mlir --compile-to model; test $? = 3' 2>&1 | FileCheck %s --check-prefix=NOTHING
// NOTHING: @loss has no input of tokens or next tokens, so that it would learn from no data
// RUN: sh -c 'dtc compile %t/name.mlir --compile-to model; test $? = 3' 2>&1 | FileCheck %s --check-prefix=NAME
// NAME: argument 0 of @loss: another tensor is called 'loss_sum' already
// RUN: sh -c 'dtc compile %t/tied.mlir --compile-to model; test $? = 3' 2>&1 | FileCheck %s --check-prefix=TIED
// TIED: parameter 'v' is tied to the name 'w', which is empty or taken

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

//--- nowhere.mlir
module attributes {dt.model = "m", dt.symbols = {vocab = 3 : i64}, dt.parameters = [#dt.param<"w", file = [4], factored = [4], permutation = [0], dims = ["embed"], init = "zeros", stddev = 0.0 : f64, decays = false>]} {
  func.func @loss(%w: tensor<4xf32> {dt.port = #dt.port<parameter "w">}, %tokens: tensor<1x2xi32> {dt.port = #dt.port<input "tokens">}) -> (tensor<f32>, tensor<f32>) {
    %sum = dt.constant dense<0.0> : tensor<f32>
    return %sum, %sum : tensor<f32>, tensor<f32>
  }
}

//--- scalar.mlir
module attributes {dt.model = "m", dt.symbols = {vocab = 3 : i64}, dt.parameters = []} {
  func.func @loss(%rate: tensor<f32> {dt.port = #dt.port<input "tokens" from learning_rate>}) -> (tensor<f32>, tensor<f32>) {
    %sum = dt.constant dense<0.0> : tensor<f32>
    return %sum, %sum : tensor<f32>, tensor<f32>
  }
}

//--- shapes.mlir
module attributes {dt.model = "m", dt.symbols = {vocab = 3 : i64}, dt.parameters = []} {
  func.func @loss(%words: tensor<1x2xi32> {dt.port = #dt.port<input "words" from tokens>}, %labels: tensor<1x3xi32> {dt.port = #dt.port<input "labels" from next_tokens>}) -> (tensor<f32>, tensor<f32>) {
    %sum = dt.constant dense<0.0> : tensor<f32>
    return %sum, %sum : tensor<f32>, tensor<f32>
  }
}

//--- key.mlir
module attributes {dt.model = "m", dt.symbols = {vocab = 3 : i64}, dt.parameters = []} {
  func.func @loss(%k: tensor<3xi32> {dt.port = #dt.port<input "k" from key>}) -> (tensor<f32>, tensor<f32>) {
    %sum = dt.constant dense<0.0> : tensor<f32>
    return %sum, %sum : tensor<f32>, tensor<f32>
  }
}

//--- nothing.mlir
module attributes {dt.model = "m", dt.symbols = {vocab = 3 : i64}, dt.parameters = []} {
  func.func @loss(%k: tensor<4xi32> {dt.port = #dt.port<input "k" from key>}) -> (tensor<f32>, tensor<f32>) {
    %sum = dt.constant dense<0.0> : tensor<f32>
    return %sum, %sum : tensor<f32>, tensor<f32>
  }
}

//--- tied.mlir
module attributes {dt.model = "m", dt.symbols = {vocab = 3 : i64}, dt.parameters = [#dt.param<"w", file = [4], factored = [4], permutation = [0], dims = ["embed"], init = "zeros", stddev = 0.0 : f64, decays = false>, #dt.param<"v", file = [4], factored = [4], permutation = [0], dims = ["embed"], init = "zeros", stddev = 0.0 : f64, decays = false, tied = ["w"]>]} {
  func.func @loss(%w: tensor<4xf32> {dt.port = #dt.port<parameter "w">}, %v: tensor<4xf32> {dt.port = #dt.port<parameter "v">}, %words: tensor<1x2xi32> {dt.port = #dt.port<input "words" from tokens>}) -> (tensor<f32>, tensor<f32>) {
    %sum = dt.constant dense<0.0> : tensor<f32>
    return %sum, %sum : tensor<f32>, tensor<f32>
  }
}

//--- name.mlir
module attributes {dt.model = "m", dt.symbols = {vocab = 3 : i64}, dt.parameters = []} {
  func.func @loss(%words: tensor<1x2xi32> {dt.port = #dt.port<input "loss_sum" from tokens>}) -> (tensor<f32>, tensor<f32>) {
    %sum = dt.constant dense<0.0> : tensor<f32>
    return %sum, %sum : tensor<f32>, tensor<f32>
  }
}
