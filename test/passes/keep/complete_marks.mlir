// RUN: dtc-opt %s --dt-complete-marks | FileCheck %s

// What passes made belongs to the earliest of its readers, through others that they made, too.
// CHECK-LABEL: func.func @readers
func.func @readers(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  // CHECK: dt.neg %{{.+}} {dt.direction = #dt.direction<input_gradient>, dt.layer = #dt.layer<"h"[1]>}
  %made = dt.neg %x : tensor<8xf32>
  // CHECK: dt.copy %{{.+}} {dt.direction = #dt.direction<input_gradient>, dt.layer = #dt.layer<"h"[1]>}
  %copy = dt.copy %made : tensor<8xf32>
  // CHECK: dt.exp %{{.+}} {dt.direction = #dt.direction<weight_gradient>}
  %w = dt.exp %copy {dt.direction = #dt.direction<weight_gradient>} : tensor<8xf32>
  %i = dt.log %copy {dt.direction = #dt.direction<input_gradient>, dt.layer = #dt.layer<"h"[1]>} : tensor<8xf32>
  return %w, %i : tensor<8xf32>, tensor<8xf32>
}

// Where nothing marked reads it, it belongs to what it reads. A constant is anybody's.
// CHECK-LABEL: func.func @results
func.func @results(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %u = dt.exp %x {dt.direction = #dt.direction<update>, dt.layer = #dt.layer<"h"[0]>} : tensor<8xf32>
  // CHECK: dt.copy %{{.+}} {dt.direction = #dt.direction<update>, dt.layer = #dt.layer<"h"[0]>}
  %copy = dt.copy %u : tensor<8xf32>
  // CHECK: dt.constant dense<1.000000e+00> : tensor<8xf32>
  %one = dt.constant dense<1.0> : tensor<8xf32>
  // CHECK: dt.add %{{.+}} : tensor<8xf32>
  %unknown = dt.add %x, %one : tensor<8xf32>
  return %copy, %unknown : tensor<8xf32>, tensor<8xf32>
}
