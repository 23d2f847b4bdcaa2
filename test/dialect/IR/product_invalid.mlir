// RUN: dtc-opt %s --split-input-file --verify-diagnostics

// What the verifier of dt.product refuses.

func.func @letters(%a: tensor<8x4xf32>, %b: tensor<4x8xf32>, %c: tensor<8x8xf32>) -> tensor<8x8xf32> {
  // expected-error@+1 {{C3: letter 'd' appears in only one operand}}
  %y = dt.product "md,ef->mf" %a, %b onto %c : tensor<8x8xf32> : tensor<8x4xf32>, tensor<4x8xf32> -> tensor<8x8xf32>
  return %y : tensor<8x8xf32>
}

// -----

func.func @none(%a: tensor<8x4xf32>, %b: tensor<4x8xf32>) -> tensor<8x8xf32> {
  // expected-error@+1 {{C5: must have one of 'onto', 'bias' and 'gelu_grad'}}
  %y = dt.product "md,df->mf" %a, %b : tensor<8x4xf32>, tensor<4x8xf32> -> tensor<8x8xf32>
  return %y : tensor<8x8xf32>
}

// -----

func.func @two(%a: tensor<8x4xf32>, %b: tensor<4x8xf32>, %c: tensor<8x8xf32>, %d: tensor<8xf32>) -> tensor<8x8xf32> {
  // expected-error@+1 {{C5: must have one of 'onto', 'bias' and 'gelu_grad'}}
  %y = dt.product "md,df->mf" %a, %b onto %c : tensor<8x8xf32> bias %d : tensor<8xf32>
       : tensor<8x4xf32>, tensor<4x8xf32> -> tensor<8x8xf32>
  return %y : tensor<8x8xf32>
}

// -----

func.func @sum_of_a_bias_alone(%a: tensor<8x4xf32>, %b: tensor<4x8xf32>, %d: tensor<8xf32>) -> tensor<8x8xf32> {
  // expected-error@+1 {{C5: must have one of 'onto', 'bias' and 'gelu_grad'}}
  %y, %x = dt.product "md,df->mf" %a, %b bias %d : tensor<8xf32>
       : tensor<8x4xf32>, tensor<4x8xf32> -> tensor<8x8xf32>, tensor<8x8xf32>
  return %y : tensor<8x8xf32>
}

// -----

func.func @accumulator(%a: tensor<8x4xbf16>, %b: tensor<4x8xbf16>, %c: tensor<8x8xbf16>) -> tensor<8x8xf32> {
  // expected-error@+1 {{C6: 'tensor<8x8xbf16>' does not match a result of 'tensor<8x8xf32>'}}
  %y = dt.product "md,df->mf" %a, %b onto %c : tensor<8x8xbf16> : tensor<8x4xbf16>, tensor<4x8xbf16> -> tensor<8x8xf32>
  return %y : tensor<8x8xf32>
}

// -----

func.func @bias(%a: tensor<8x4xf32>, %b: tensor<4x6xf32>, %d: tensor<8xf32>) -> tensor<8x6xf32> {
  // expected-error@+1 {{C6: a bias of 'tensor<8xf32>' does not have the last dimensions of a result of 'tensor<8x6xf32>'}}
  %y = dt.product "md,df->mf" %a, %b bias %d : tensor<8xf32> : tensor<8x4xf32>, tensor<4x6xf32> -> tensor<8x6xf32>
  return %y : tensor<8x6xf32>
}
