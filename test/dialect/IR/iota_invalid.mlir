// RUN: dtc-opt %s --split-input-file --verify-diagnostics

func.func @negative_dimension() -> tensor<4xi32> {
  // expected-error @below {{C1: dim -1 is not a dimension of a result of rank 1}}
  %0 = dt.iota -1 : tensor<4xi32>
  return %0 : tensor<4xi32>
}

// -----

func.func @dimension_past_the_rank() -> tensor<4xi32> {
  // expected-error @below {{C1: dim 1 is not a dimension of a result of rank 1}}
  %0 = dt.iota 1 : tensor<4xi32>
  return %0 : tensor<4xi32>
}
