// RUN: dtc-opt %s --dt-verify-how --split-input-file --verify-diagnostics

func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @below {{H1: is neither a launch, nor a library's, nor a collective, nor a copy to the host or back, nor a view}}
  %y = dt.exp %x : tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

// A view belongs nowhere.
func.func @f(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<4xf32>) {
  %a = dt.copy %x {dt.direction = #dt.direction<forward>} : tensor<8xf32>
  %v = dt.slice %a at [0] : tensor<8xf32> -> tensor<4xf32>
  // expected-error @below {{H2: belongs to no part of the step; run dt-complete-marks}}
  %b = dt.copy %v : tensor<4xf32>
  return %a, %b : tensor<8xf32>, tensor<4xf32>
}

// -----

// Two dimensions of a box are not rows of one matrix.
func.func @f(%x: tensor<4x3x8xf32>, %w: tensor<3x5x6xf32>) -> tensor<4x6xf32> {
  %v = dt.slice %x at [0, 0, 0] : tensor<4x3x8xf32> -> tensor<4x3x5xf32>
  // expected-error @below {{H3: cannot be called on tensors with these layouts; run dt-explicit-copies}}
  %y = dt.contract "abc,bcd->ad" %v, %w : tensor<4x3x5xf32>, tensor<3x5x6xf32> -> tensor<4x6xf32>
  return %y : tensor<4x6xf32>
}
