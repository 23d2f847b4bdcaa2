// The contract of form 2, one violation a module.

// RUN: dtc-opt %s --split-input-file --verify-diagnostics --dt-verify-where

// expected-error @below {{has no dt.mesh (W1)}}
module {
}

// -----

module attributes {dt.mesh = #dt.mesh<"tp" = 2>} {
  // expected-error @below {{argument 0 lacks dt.sharding or dt.global (W2)}}
  func.func @f(%x: tensor<4xf32> {dt.role = "input", dt.name = "x"}) {
    return
  }
}

// -----

module attributes {dt.mesh = #dt.mesh<"tp" = 2>} {
  // expected-error @below {{argument 0 has type 'tensor<4xf32>'}}
  func.func @f(%x: tensor<4xf32> {dt.role = "input", dt.name = "x", dt.global = tensor<4xf32>,
                                  dt.sharding = #dt.sharding<[{"tp"}]>}) {
    return
  }
}

// -----

module attributes {dt.mesh = #dt.mesh<"tp" = 2>} {
  func.func @f(%x: tensor<2xf32> {dt.role = "input", dt.name = "x", dt.global = tensor<4xf32>,
                                  dt.sharding = #dt.sharding<[{"tp"}]>}) {
    return
  }
  // expected-error @below {{elsewhere as}}
  func.func @g(%x: tensor<4xf32> {dt.role = "input", dt.name = "x", dt.global = tensor<4xf32>,
                                  dt.sharding = #dt.sharding<[{}]>}) {
    return
  }
}

// -----

module attributes {dt.mesh = #dt.mesh<"tp" = 2>} {
  // expected-error @below {{output "loss_sum" is partial (W5)}}
  func.func @f(%x: tensor<f32> {dt.role = "input", dt.name = "x", dt.global = tensor<f32>,
                                dt.sharding = #dt.sharding<[]>})
      -> (tensor<f32> {dt.role = "output", dt.name = "loss_sum", dt.global = tensor<f32>,
                       dt.sharding = #dt.sharding<[], partial = sum {"tp"}>}) {
    return %x : tensor<f32>
  }
}

// -----

module attributes {dt.mesh = #dt.mesh<"tp" = 2>} {
  func.func @f(%x: tensor<f32> {dt.role = "input", dt.name = "x", dt.global = tensor<f32>,
                                dt.sharding = #dt.sharding<[]>}) {
    // expected-error @below {{still carries what propagation wrote (W4)}}
    %0 = dt.exp %x {dt.iteration = #dt.sharding<[]>} : tensor<f32>
    return
  }
}
