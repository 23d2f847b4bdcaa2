// RUN: dtc-opt %s --dt-outline-formulas | FileCheck %s

// No formula is left: each pair of formula and type is one kernel, ...
// CHECK-NOT: dt.formula
dt.formula @decay(%x: tensor<f32>, %rate: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %half = dt.constant dense<0.5> : tensor<f32>
  %kept = dt.mul %x, %half : tensor<f32>
  %y = dt.mul %kept, %rate : tensor<f32>
  dt.yield %y, %kept : tensor<f32>, tensor<f32>
}

// ... shared by all that apply it this way.
// CHECK-LABEL: @matrices
func.func @matrices(%a: tensor<8x64xf32>, %b: tensor<8x64xf32>, %rate: tensor<f32>) -> (tensor<8x64xf32>, tensor<8x64xf32>) {
  // CHECK: %[[A:.+]]:2 = dt.launch @decay_0(%arg0, %arg2) {dt.layer = #dt.layer<"h"[0]>}
  // CHECK: %[[B:.+]]:2 = dt.launch @decay_0(%arg1, %arg2)
  // CHECK: return %[[A]]#0, %[[B]]#1
  %x:2 = dt.apply @decay(%a, %rate) {dt.layer = #dt.layer<"h"[0]>} : (tensor<8x64xf32>, tensor<f32>) -> (tensor<8x64xf32>, tensor<8x64xf32>)
  %y:2 = dt.apply @decay(%b, %rate) : (tensor<8x64xf32>, tensor<f32>) -> (tensor<8x64xf32>, tensor<8x64xf32>)
  return %x#0, %y#1 : tensor<8x64xf32>, tensor<8x64xf32>
}

// CHECK-LABEL: @number
func.func @number(%x: tensor<f32>, %rate: tensor<f32>) -> tensor<f32> {
  // CHECK: dt.launch @[[OF_NUMBERS:.+]](%arg0, %arg1)
  %y:2 = dt.apply @decay(%x, %rate) : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
  return %y#0 : tensor<f32>
}

// Numbers are broadcast, constants have the shape.
// CHECK: dt.kernel @decay_0(%arg0: tensor<8x64xf32>, %arg1: tensor<f32>) -> (tensor<8x64xf32>, tensor<8x64xf32>)
// CHECK-NEXT: %[[RATE:.+]] = dt.broadcast %arg1 dims [] : tensor<f32> -> tensor<8x64xf32>
// CHECK-NEXT: %[[HALF:.+]] = dt.constant dense<5.000000e-01> : tensor<8x64xf32>
// CHECK-NEXT: %[[KEPT:.+]] = dt.mul %arg0, %[[HALF]]
// CHECK-NEXT: %[[Y:.+]] = dt.mul %[[KEPT]], %[[RATE]]
// CHECK-NEXT: dt.yield %[[Y]], %[[KEPT]]

// CHECK: dt.kernel @[[OF_NUMBERS]](%arg0: tensor<f32>, %arg1: tensor<f32>)
// CHECK-NOT: dt.broadcast
// CHECK: dt.yield
// CHECK-NOT: dt.kernel
