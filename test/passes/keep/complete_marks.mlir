// RUN: dtc-opt %s --dt-complete-marks | FileCheck %s

// An operation that passes created belongs to the earliest of its readers, also through others that they created.
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

// Where nothing marked reads it, it belongs to what it reads; what reads nothing marked either, to what all else is for.
// A constant belongs to all of its readers.
// CHECK-LABEL: func.func @results
func.func @results(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %u = dt.exp %x {dt.direction = #dt.direction<update>, dt.layer = #dt.layer<"h"[0]>} : tensor<8xf32>
  // CHECK: dt.copy %{{.+}} {dt.direction = #dt.direction<update>, dt.layer = #dt.layer<"h"[0]>}
  %copy = dt.copy %u : tensor<8xf32>
  // CHECK: dt.constant dense<1.000000e+00> : tensor<8xf32>
  %one = dt.constant dense<1.0> : tensor<8xf32>
  // CHECK: dt.add %{{.+}} {dt.direction = #dt.direction<update>} : tensor<8xf32>
  %handed_on = dt.add %x, %one : tensor<8xf32>
  return %copy, %handed_on : tensor<8xf32>, tensor<8xf32>
}

// What makes the mask of a result is read by what has its mark from what it reads.
// CHECK-LABEL: func.func @masks
// CHECK: dt.iota 0 {dt.direction = #dt.direction<update>}
// CHECK: dt.compare ge %{{.+}} {dt.direction = #dt.direction<update>}
// CHECK: dt.select %{{.+}} {dt.direction = #dt.direction<update>}
func.func @masks(%x: tensor<8xf32>, %bound: tensor<8xi32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %i = dt.iota 0 : tensor<8xi32>
  %mask = dt.compare ge %i, %bound : tensor<8xi32> -> tensor<8xi1>
  %f = dt.exp %x {dt.direction = #dt.direction<forward>} : tensor<8xf32>
  %u = dt.exp %f {dt.direction = #dt.direction<update>} : tensor<8xf32>
  %masked = dt.select %mask, %u, %x : tensor<8xi1>, tensor<8xf32>
  return %masked, %f : tensor<8xf32>, tensor<8xf32>
}

// Among operations of several parts it stays open where what only hands on belongs.
// CHECK-LABEL: func.func @open
// CHECK: dt.copy %arg0 : tensor<8xf32>
func.func @open(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %f = dt.exp %x {dt.direction = #dt.direction<forward>} : tensor<8xf32>
  %u = dt.exp %f {dt.direction = #dt.direction<update>} : tensor<8xf32>
  %open = dt.copy %x : tensor<8xf32>
  return %u, %open : tensor<8xf32>, tensor<8xf32>
}
