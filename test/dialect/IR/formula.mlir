// RUN: dtc-opt %s | dtc-opt | FileCheck %s

// A formula is a function of numbers; its operands may have any shape.
// CHECK-LABEL: dt.formula @sgd(%arg0: tensor<f32>, %arg1: tensor<bf16>, %arg2: tensor<f32>) -> tensor<f32>
// CHECK: dt.yield %{{.*}} : tensor<f32>
dt.formula @sgd(%p: tensor<f32>, %g: tensor<bf16>, %rate: tensor<f32>) -> tensor<f32> {
  %wide = dt.convert %g : tensor<bf16> -> tensor<f32>
  %step = dt.mul %rate, %wide : tensor<f32>
  %new = dt.sub %p, %step : tensor<f32>
  dt.yield %new : tensor<f32>
}

// CHECK-LABEL: @applies
func.func @applies(%p: tensor<8x64xf32>, %g: tensor<8x64xbf16>, %rate: tensor<f32>) -> tensor<8x64xf32> {
  // CHECK: dt.apply @sgd(%arg0, %arg1, %arg2) : (tensor<8x64xf32>, tensor<8x64xbf16>, tensor<f32>) -> tensor<8x64xf32>
  %new = dt.apply @sgd(%p, %g, %rate) : (tensor<8x64xf32>, tensor<8x64xbf16>, tensor<f32>) -> tensor<8x64xf32>
  return %new : tensor<8x64xf32>
}
