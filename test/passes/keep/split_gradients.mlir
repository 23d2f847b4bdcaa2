// RUN: dtc-opt %s --dt-split-gradients=rules=w=2 | FileCheck %s
// RUN: dtc-opt %s --dt-split-gradients=rules=v=2 | FileCheck %s --check-prefix=OTHER
// RUN: sh -c 'dtc-opt %s --dt-split-gradients=rules=w=two; test $? = 1' 2>&1 | FileCheck %s --check-prefix=REFUSED

// REFUSED: error: 'w=two' is not PATTERN=PARTS, with a number of parts from 1 on
// OTHER-NOT: dt.slice

module attributes {dt.mesh = #dt.mesh<"dp" = 2>} {

// Five rows in two parts: two, and three.
// CHECK-LABEL: @rows_are_made_and_reduced_in_two_parts
// CHECK-NEXT: %[[E0:.*]] = dt.slice %arg0 at [0, 0] {dt.direction = #dt.direction<weight_gradient>} : tensor<8x5xf32> -> tensor<8x2xf32>
// CHECK-NEXT: %[[G0:.*]] = dt.contract "sv,sd->vd" %[[E0]], %arg1 {dt.direction = #dt.direction<weight_gradient>} : tensor<8x2xf32>, tensor<8x3xf32> -> tensor<2x3xf32>
// CHECK-NEXT: %[[R0:.*]] = dt.all_reduce sum %[[G0]] over [#dt.axis_ref<"dp", 1, 0>] {dt.direction = #dt.direction<update>} : tensor<2x3xf32> -> tensor<2x3xf32>
// CHECK-NEXT: %[[E1:.*]] = dt.slice %arg0 at [0, 2] {{.*}} -> tensor<8x3xf32>
// CHECK-NEXT: %[[G1:.*]] = dt.contract "sv,sd->vd" %[[E1]], %arg1 {{.*}} -> tensor<3x3xf32>
// CHECK-NEXT: %[[R1:.*]] = dt.all_reduce sum %[[G1]]
// CHECK-NEXT: %[[R:.*]] = dt.concat %[[R0]], %[[R1]] along 0 {dt.direction = #dt.direction<update>} : tensor<2x3xf32>, tensor<3x3xf32> -> tensor<5x3xf32>
// CHECK-NEXT: return %[[R]]
func.func @rows_are_made_and_reduced_in_two_parts(%e: tensor<8x5xf32>, %x: tensor<8x3xf32>)
    -> (tensor<5x3xf32> {dt.port = #dt.port<reduced_gradient "w">}) {
  %g = dt.contract "sv,sd->vd" %e, %x {dt.direction = #dt.direction<weight_gradient>} : tensor<8x5xf32>, tensor<8x3xf32> -> tensor<5x3xf32>
  %r = dt.all_reduce sum %g over [#dt.axis_ref<"dp", 1, 0>] {dt.direction = #dt.direction<update>} : tensor<5x3xf32> -> tensor<5x3xf32>
  return %r : tensor<5x3xf32>
}

// What something else reads, too, is no product, or is no sum of what lies at the same place, stays.
// CHECK-LABEL: @all_else_stays
// CHECK-NOT: dt.slice
func.func @all_else_stays(%e: tensor<8x6xf32>, %x: tensor<8x3xf32>)
    -> (tensor<6x3xf32> {dt.port = #dt.port<reduced_gradient "w">}, tensor<6x3xf32>,
        tensor<8x6xf32> {dt.port = #dt.port<reduced_gradient "w">}, tensor<3x3xf32> {dt.port = #dt.port<reduced_gradient "w">}) {
  %g = dt.contract "sv,sd->vd" %e, %x : tensor<8x6xf32>, tensor<8x3xf32> -> tensor<6x3xf32>
  %r = dt.all_reduce sum %g over [#dt.axis_ref<"dp", 1, 0>] : tensor<6x3xf32> -> tensor<6x3xf32>
  %n = dt.neg %e : tensor<8x6xf32>
  %s = dt.all_reduce sum %n over [#dt.axis_ref<"dp", 1, 0>] : tensor<8x6xf32> -> tensor<8x6xf32>
  %h = dt.contract "sv,sd->vd" %n, %x : tensor<8x6xf32>, tensor<8x3xf32> -> tensor<6x3xf32>
  %t = dt.reduce_scatter sum %h along 0 over [#dt.axis_ref<"dp", 1, 0>] : tensor<6x3xf32> -> tensor<3x3xf32>
  return %r, %g, %s, %t : tensor<6x3xf32>, tensor<6x3xf32>, tensor<8x6xf32>, tensor<3x3xf32>
}

}
