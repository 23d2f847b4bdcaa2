// RUN: dtc-opt %s --split-input-file --verify-diagnostics

func.func @rank(%a: tensor<2x2x2xf32>, %b: tensor<f32>) -> tensor<3x2x2xf32> {
  // expected-error @below {{'dt.concat' op C2: ranks and element types must agree}}
  %0 = dt.concat %a, %b along 0 : tensor<2x2x2xf32>, tensor<f32> -> tensor<3x2x2xf32>
  return %0 : tensor<3x2x2xf32>
}

// -----

func.func @row(%a: tensor<2x2xf32>, %b: tensor<3xf32>) -> tensor<3x2xf32> {
  // expected-error @below {{'dt.concat' op C2: operand size 3 along dimension 1, result 2}}
  %0 = dt.concat %a, %b along 0 : tensor<2x2xf32>, tensor<3xf32> -> tensor<3x2xf32>
  return %0 : tensor<3x2xf32>
}

// -----

func.func @places(%a: tensor<f32>, %b: tensor<f32>) -> tensor<3xf32> {
  // expected-error @below {{'dt.concat' op C2: operands add up to 2 along dimension 0, result has 3}}
  %0 = dt.concat %a, %b along 0 : tensor<f32>, tensor<f32> -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
