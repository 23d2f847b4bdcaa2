// RUN: dtc-opt %s --split-input-file --verify-diagnostics

// What the verifiers of kernels and launches refuse.

func.func @no_kernel(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error@+1 {{refers to @no_kernel, which is no dt.kernel (C1)}}
  %y = dt.launch @no_kernel(%x) : (tensor<8xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

dt.kernel @copy(%x: tensor<8xf32>) -> tensor<8xf32> {
  dt.yield %x : tensor<8xf32>
}

func.func @other_type(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{(C2)}}
  %y = dt.launch @copy(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// expected-error@+1 {{must end in a dt.yield of its result types (C2)}}
dt.kernel @mismatch(%x: tensor<8xf32>) -> tensor<4xf32> {
  dt.yield %x : tensor<8xf32>
}

// -----

// expected-error@+1 {{has no result, so that it would do nothing (C3)}}
dt.kernel @idle(%x: tensor<8xf32>) {
  "dt.yield"() : () -> ()
}

// -----

dt.kernel @draw(%key: tensor<4xi32>) -> tensor<8xf32> {
  %first = dt.random %key site 0 of [8] : tensor<4xi32> -> tensor<8xf32>
  %second = dt.random %key site 1 of [8] : tensor<4xi32> -> tensor<8xf32>
  %sum = dt.add %first, %second : tensor<8xf32>
  dt.yield %sum : tensor<8xf32>
}

func.func @too_few_sites(%key: tensor<4xi32>) -> tensor<8xf32> {
  // expected-error@+1 {{gives 1 sites, but its kernel draws at number 1 (C3)}}
  %y = dt.launch @draw(%key) sites [7] : (tensor<4xi32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}
