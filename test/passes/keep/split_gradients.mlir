// RUN: dtc-opt %s --dt-split-gradients=rules=w=2 | FileCheck %s
// RUN: dtc-opt %s --dt-split-gradients=rules=v=2 | FileCheck %s --check-prefix=OTHER
// RUN: sh -c 'dtc-opt %s --dt-split-gradients=rules=w=two; test $? = 1' 2>&1 | FileCheck %s --check-prefix=REFUSED

// REFUSED: error: 'w=two' is not PATTERN=PARTS, where PARTS is a number, 1 or more
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

// Results that something else reads, that are not products, or that do not sum elements at the same place, stay.
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

// What is summed up may lead on by more ways than can be counted, as a residual stream does: every value is looked at once.
// CHECK-LABEL: @every_value_is_looked_at_once
// CHECK-NOT: dt.slice
func.func @every_value_is_looked_at_once(%e: tensor<8x6xf32>, %x: tensor<8x3xf32>) -> tensor<6x3xf32> {
  %g = dt.contract "sv,sd->vd" %e, %x : tensor<8x6xf32>, tensor<8x3xf32> -> tensor<6x3xf32>
  %0 = dt.all_reduce sum %g over [#dt.axis_ref<"dp", 1, 0>] : tensor<6x3xf32> -> tensor<6x3xf32>
  %n0 = dt.neg %0 : tensor<6x3xf32>
  %1 = dt.add %0, %n0 : tensor<6x3xf32>
  %n1 = dt.neg %1 : tensor<6x3xf32>
  %2 = dt.add %1, %n1 : tensor<6x3xf32>
  %n2 = dt.neg %2 : tensor<6x3xf32>
  %3 = dt.add %2, %n2 : tensor<6x3xf32>
  %n3 = dt.neg %3 : tensor<6x3xf32>
  %4 = dt.add %3, %n3 : tensor<6x3xf32>
  %n4 = dt.neg %4 : tensor<6x3xf32>
  %5 = dt.add %4, %n4 : tensor<6x3xf32>
  %n5 = dt.neg %5 : tensor<6x3xf32>
  %6 = dt.add %5, %n5 : tensor<6x3xf32>
  %n6 = dt.neg %6 : tensor<6x3xf32>
  %7 = dt.add %6, %n6 : tensor<6x3xf32>
  %n7 = dt.neg %7 : tensor<6x3xf32>
  %8 = dt.add %7, %n7 : tensor<6x3xf32>
  %n8 = dt.neg %8 : tensor<6x3xf32>
  %9 = dt.add %8, %n8 : tensor<6x3xf32>
  %n9 = dt.neg %9 : tensor<6x3xf32>
  %10 = dt.add %9, %n9 : tensor<6x3xf32>
  %n10 = dt.neg %10 : tensor<6x3xf32>
  %11 = dt.add %10, %n10 : tensor<6x3xf32>
  %n11 = dt.neg %11 : tensor<6x3xf32>
  %12 = dt.add %11, %n11 : tensor<6x3xf32>
  %n12 = dt.neg %12 : tensor<6x3xf32>
  %13 = dt.add %12, %n12 : tensor<6x3xf32>
  %n13 = dt.neg %13 : tensor<6x3xf32>
  %14 = dt.add %13, %n13 : tensor<6x3xf32>
  %n14 = dt.neg %14 : tensor<6x3xf32>
  %15 = dt.add %14, %n14 : tensor<6x3xf32>
  %n15 = dt.neg %15 : tensor<6x3xf32>
  %16 = dt.add %15, %n15 : tensor<6x3xf32>
  %n16 = dt.neg %16 : tensor<6x3xf32>
  %17 = dt.add %16, %n16 : tensor<6x3xf32>
  %n17 = dt.neg %17 : tensor<6x3xf32>
  %18 = dt.add %17, %n17 : tensor<6x3xf32>
  %n18 = dt.neg %18 : tensor<6x3xf32>
  %19 = dt.add %18, %n18 : tensor<6x3xf32>
  %n19 = dt.neg %19 : tensor<6x3xf32>
  %20 = dt.add %19, %n19 : tensor<6x3xf32>
  %n20 = dt.neg %20 : tensor<6x3xf32>
  %21 = dt.add %20, %n20 : tensor<6x3xf32>
  %n21 = dt.neg %21 : tensor<6x3xf32>
  %22 = dt.add %21, %n21 : tensor<6x3xf32>
  %n22 = dt.neg %22 : tensor<6x3xf32>
  %23 = dt.add %22, %n22 : tensor<6x3xf32>
  %n23 = dt.neg %23 : tensor<6x3xf32>
  %24 = dt.add %23, %n23 : tensor<6x3xf32>
  %n24 = dt.neg %24 : tensor<6x3xf32>
  %25 = dt.add %24, %n24 : tensor<6x3xf32>
  %n25 = dt.neg %25 : tensor<6x3xf32>
  %26 = dt.add %25, %n25 : tensor<6x3xf32>
  %n26 = dt.neg %26 : tensor<6x3xf32>
  %27 = dt.add %26, %n26 : tensor<6x3xf32>
  %n27 = dt.neg %27 : tensor<6x3xf32>
  %28 = dt.add %27, %n27 : tensor<6x3xf32>
  %n28 = dt.neg %28 : tensor<6x3xf32>
  %29 = dt.add %28, %n28 : tensor<6x3xf32>
  %n29 = dt.neg %29 : tensor<6x3xf32>
  %30 = dt.add %29, %n29 : tensor<6x3xf32>
  %n30 = dt.neg %30 : tensor<6x3xf32>
  %31 = dt.add %30, %n30 : tensor<6x3xf32>
  %n31 = dt.neg %31 : tensor<6x3xf32>
  %32 = dt.add %31, %n31 : tensor<6x3xf32>
  %n32 = dt.neg %32 : tensor<6x3xf32>
  %33 = dt.add %32, %n32 : tensor<6x3xf32>
  %n33 = dt.neg %33 : tensor<6x3xf32>
  %34 = dt.add %33, %n33 : tensor<6x3xf32>
  %n34 = dt.neg %34 : tensor<6x3xf32>
  %35 = dt.add %34, %n34 : tensor<6x3xf32>
  %n35 = dt.neg %35 : tensor<6x3xf32>
  %36 = dt.add %35, %n35 : tensor<6x3xf32>
  %n36 = dt.neg %36 : tensor<6x3xf32>
  %37 = dt.add %36, %n36 : tensor<6x3xf32>
  %n37 = dt.neg %37 : tensor<6x3xf32>
  %38 = dt.add %37, %n37 : tensor<6x3xf32>
  %n38 = dt.neg %38 : tensor<6x3xf32>
  %39 = dt.add %38, %n38 : tensor<6x3xf32>
  %n39 = dt.neg %39 : tensor<6x3xf32>
  %40 = dt.add %39, %n39 : tensor<6x3xf32>
  return %40 : tensor<6x3xf32>
}

}
