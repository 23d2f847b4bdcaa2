// The contract of form 2, one violation per module.

// RUN: dtc-opt %s --split-input-file --verify-diagnostics --dt-verify-where

// expected-error @below {{has no dt.mesh (W1)}}
module {
}

// -----

module attributes {dt.mesh = #dt.mesh<"tp" = 2>} {
  // expected-error @below {{argument 0 (input x) lacks dt.port with its placement and whole type (W2)}}
  func.func @f(%x: tensor<4xf32> {dt.port = #dt.port<input "x">}) {
    return
  }
}

// -----

module attributes {dt.mesh = #dt.mesh<"tp" = 2>} {
  // expected-error @below {{argument 0 (input x) has type 'tensor<4xf32>'}}
  func.func @f(%x: tensor<4xf32> {dt.port = #dt.port<input "x", placed = <[{"tp"}]>, whole = tensor<4xf32>>}) {
    return
  }
}

// -----

module attributes {dt.mesh = #dt.mesh<"tp" = 2>} {
  func.func @f(%x: tensor<2xf32> {dt.port = #dt.port<input "x", placed = <[{"tp"}]>, whole = tensor<4xf32>>}) {
    return
  }
  // expected-error @below {{elsewhere as}}
  func.func @g(%x: tensor<4xf32> {dt.port = #dt.port<input "x", placed = <[{}]>, whole = tensor<4xf32>>}) {
    return
  }
}

// -----

module attributes {dt.mesh = #dt.mesh<"tp" = 2>} {
  // expected-error @below {{result 0 (output loss_sum) is partial (W5)}}
  func.func @f(%x: tensor<f32> {dt.port = #dt.port<input "x", placed = <[]>, whole = tensor<f32>>})
      -> (tensor<f32> {dt.port = #dt.port<output "loss_sum", placed = <[], partial = sum {"tp"}>, whole = tensor<f32>>}) {
    return %x : tensor<f32>
  }
}

// -----

module attributes {dt.mesh = #dt.mesh<"tp" = 2>} {
  func.func @f(%x: tensor<f32> {dt.port = #dt.port<input "x", placed = <[]>, whole = tensor<f32>>}) {
    // expected-error @below {{still carries what propagation wrote (W4)}}
    %0 = dt.exp %x {dt.iteration = #dt.sharding<[]>} : tensor<f32>
    return
  }
}
