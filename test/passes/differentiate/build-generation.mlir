// RUN: dtc-opt %s --dt-build-generation | FileCheck %s

// A program that generates has no dropout, and all of it is forward.

// CHECK-LABEL: func.func @prompt(
// CHECK-SAME:    %[[X:[a-z0-9]+]]: tensor<2xf32>
// CHECK-NOT:     dt.dropout
// CHECK:         %[[Y:.+]] = dt.exp %[[X]] {dt.direction = #dt.direction<forward>}
// CHECK:         return %[[Y]]
func.func @prompt(%x: tensor<2xf32> {dt.port = #dt.port<input "x">}, %key: tensor<4xi32> {dt.port = #dt.port<input "key" from key>})
    -> (tensor<2xf32> {dt.port = #dt.port<output "y">}) {
  %d = dt.dropout %x, %key rate 0.5 site 0 : tensor<2xf32>, tensor<4xi32>
  %y = dt.exp %d : tensor<2xf32>
  return %y : tensor<2xf32>
}
