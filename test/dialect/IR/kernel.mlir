// RUN: dtc-opt %s | dtc-opt | FileCheck %s

// A kernel's text states what it computes; a launch applies it.
// CHECK-LABEL: dt.kernel @scale(%arg0: tensor<8x64xf32>, %arg1: tensor<f32>) -> tensor<8x64xf32>
// CHECK: dt.yield %{{.*}} : tensor<8x64xf32>
dt.kernel @scale(%x: tensor<8x64xf32>, %factor: tensor<f32>) -> tensor<8x64xf32> {
  %all = dt.broadcast %factor dims [] : tensor<f32> -> tensor<8x64xf32>
  %y = dt.mul %x, %all : tensor<8x64xf32>
  dt.yield %y : tensor<8x64xf32>
}

// CHECK-LABEL: @launches
func.func @launches(%x: tensor<8x64xf32>, %factor: tensor<f32>) -> tensor<8x64xf32> {
  // CHECK: dt.launch @scale(%arg0, %arg1) : (tensor<8x64xf32>, tensor<f32>) -> tensor<8x64xf32>
  %y = dt.launch @scale(%x, %factor) : (tensor<8x64xf32>, tensor<f32>) -> tensor<8x64xf32>
  return %y : tensor<8x64xf32>
}

dt.kernel @draw(%key: tensor<4xi32>) -> tensor<8xf32> {
  %u = dt.random %key site 0 of [8] : tensor<4xi32> -> tensor<8xf32>
  dt.yield %u : tensor<8xf32>
}

// CHECK-LABEL: @launches_with_a_site
func.func @launches_with_a_site(%key: tensor<4xi32>) -> tensor<8xf32> {
  // CHECK: dt.launch @draw(%arg0) sites [7] : (tensor<4xi32>) -> tensor<8xf32>
  %y = dt.launch @draw(%key) sites [7] : (tensor<4xi32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}
