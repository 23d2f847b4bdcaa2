// RUN: dtc-opt %s --split-input-file --verify-diagnostics

// What the verifiers of formulas and their application refuse.

// expected-error@+1 {{must end in a dt.yield of its result types (C2)}}
dt.formula @mismatch(%x: tensor<f32>) -> tensor<i1> {
  dt.yield %x : tensor<f32>
}

// -----

// expected-error@+1 {{has no result, so that it would do nothing (C3)}}
dt.formula @idle(%x: tensor<f32>) {
  "dt.yield"() : () -> ()
}

// -----

// expected-error@+1 {{a formula is of tensors of rank 0 (C4)}}
dt.formula @of_vectors(%x: tensor<8xf32>) -> tensor<8xf32> {
  dt.yield %x : tensor<8xf32>
}

// -----

dt.formula @sums(%x: tensor<f32>) -> tensor<f32> {
  // expected-error@+1 {{is neither elementwise nor a constant, so it cannot be part of a formula (C5)}}
  %y = dt.reduce sum %x over [] : tensor<f32> -> tensor<f32>
  dt.yield %y : tensor<f32>
}

// -----

func.func @no_formula(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error@+1 {{refers to @no_formula, which is no dt.formula (C1)}}
  %y = dt.apply @no_formula(%x) : (tensor<8xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

dt.formula @same(%x: tensor<f32>) -> tensor<f32> {
  dt.yield %x : tensor<f32>
}

func.func @other_element(%x: tensor<8xbf16>) -> tensor<8xf32> {
  // expected-error@+1 {{(C2)}}
  %y = dt.apply @same(%x) : (tensor<8xbf16>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

dt.formula @same(%x: tensor<f32>) -> tensor<f32> {
  dt.yield %x : tensor<f32>
}

func.func @other_shape(%x: tensor<4xf32>) -> tensor<8xf32> {
  // expected-error@+1 {{has 'tensor<4xf32>' beside a result of shape [8] (C3)}}
  %y = dt.apply @same(%x) : (tensor<4xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}
