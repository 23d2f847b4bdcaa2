// RUN: dtc-opt %s --dt-interleave-parts | FileCheck %s

module attributes {dt.mesh = #dt.mesh<"tp" = 2>} {

// Two products between a gather and a reduce-scatter, twice. Once under way, each collective has a product of the other
// part beside it: the next layer's gather of part 0 starts between the two products of part 1.
// CHECK-LABEL: @each_collective_has_a_product_beside_it
// CHECK: dt.all_gather %arg0
// CHECK-NEXT: dt.all_gather %arg1
// CHECK-NEXT: "bd,df->bf" {{.*}}dt.part = 0
// CHECK-NEXT: "bf,fd->bd" {{.*}}dt.part = 0
// CHECK-NEXT: dt.reduce_scatter {{.*}}dt.part = 0
// CHECK-NEXT: "bd,df->bf" {{.*}}dt.part = 1
// CHECK-NEXT: dt.all_gather {{.*}}"h"[1]>, dt.part = 0
// CHECK-NEXT: "bf,fd->bd" {{.*}}"h"[0]>, dt.part = 1
// CHECK-NEXT: dt.reduce_scatter {{.*}}"h"[0]>, dt.part = 1
// CHECK-NEXT: "bd,df->bf" {{.*}}"h"[1]>, dt.part = 0
// CHECK-NEXT: dt.all_gather {{.*}}"h"[1]>, dt.part = 1
// CHECK-NEXT: "bf,fd->bd" {{.*}}"h"[1]>, dt.part = 0
func.func @each_collective_has_a_product_beside_it(%x0: tensor<2x4xf32>, %x1: tensor<2x4xf32>, %w: tensor<8x8xf32>, %v: tensor<8x8xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>) {
  %g0 = dt.all_gather %x0 along 1 over [#dt.axis_ref<"tp", 1, 0>] {dt.layer = #dt.layer<"h"[0]>, dt.part = 0 : i64} : tensor<2x4xf32> -> tensor<2x8xf32>
  %g1 = dt.all_gather %x1 along 1 over [#dt.axis_ref<"tp", 1, 0>] {dt.layer = #dt.layer<"h"[0]>, dt.part = 1 : i64} : tensor<2x4xf32> -> tensor<2x8xf32>
  %a0 = dt.contract "bd,df->bf" %g0, %w {dt.layer = #dt.layer<"h"[0]>, dt.part = 0 : i64} : tensor<2x8xf32>, tensor<8x8xf32> -> tensor<2x8xf32>
  %a1 = dt.contract "bd,df->bf" %g1, %w {dt.layer = #dt.layer<"h"[0]>, dt.part = 1 : i64} : tensor<2x8xf32>, tensor<8x8xf32> -> tensor<2x8xf32>
  %b0 = dt.contract "bf,fd->bd" %a0, %v {dt.layer = #dt.layer<"h"[0]>, dt.part = 0 : i64} : tensor<2x8xf32>, tensor<8x8xf32> -> tensor<2x8xf32>
  %b1 = dt.contract "bf,fd->bd" %a1, %v {dt.layer = #dt.layer<"h"[0]>, dt.part = 1 : i64} : tensor<2x8xf32>, tensor<8x8xf32> -> tensor<2x8xf32>
  %r0 = dt.reduce_scatter sum %b0 along 1 over [#dt.axis_ref<"tp", 1, 0>] {dt.layer = #dt.layer<"h"[0]>, dt.part = 0 : i64} : tensor<2x8xf32> -> tensor<2x4xf32>
  %r1 = dt.reduce_scatter sum %b1 along 1 over [#dt.axis_ref<"tp", 1, 0>] {dt.layer = #dt.layer<"h"[0]>, dt.part = 1 : i64} : tensor<2x8xf32> -> tensor<2x4xf32>
  %h0 = dt.all_gather %r0 along 1 over [#dt.axis_ref<"tp", 1, 0>] {dt.layer = #dt.layer<"h"[1]>, dt.part = 0 : i64} : tensor<2x4xf32> -> tensor<2x8xf32>
  %h1 = dt.all_gather %r1 along 1 over [#dt.axis_ref<"tp", 1, 0>] {dt.layer = #dt.layer<"h"[1]>, dt.part = 1 : i64} : tensor<2x4xf32> -> tensor<2x8xf32>
  %c0 = dt.contract "bd,df->bf" %h0, %w {dt.layer = #dt.layer<"h"[1]>, dt.part = 0 : i64} : tensor<2x8xf32>, tensor<8x8xf32> -> tensor<2x8xf32>
  %c1 = dt.contract "bd,df->bf" %h1, %w {dt.layer = #dt.layer<"h"[1]>, dt.part = 1 : i64} : tensor<2x8xf32>, tensor<8x8xf32> -> tensor<2x8xf32>
  %d0 = dt.contract "bf,fd->bd" %c0, %v {dt.layer = #dt.layer<"h"[1]>, dt.part = 0 : i64} : tensor<2x8xf32>, tensor<8x8xf32> -> tensor<2x8xf32>
  %d1 = dt.contract "bf,fd->bd" %c1, %v {dt.layer = #dt.layer<"h"[1]>, dt.part = 1 : i64} : tensor<2x8xf32>, tensor<8x8xf32> -> tensor<2x8xf32>
  %s0 = dt.reduce_scatter sum %d0 along 1 over [#dt.axis_ref<"tp", 1, 0>] {dt.layer = #dt.layer<"h"[1]>, dt.part = 0 : i64} : tensor<2x8xf32> -> tensor<2x4xf32>
  %s1 = dt.reduce_scatter sum %d1 along 1 over [#dt.axis_ref<"tp", 1, 0>] {dt.layer = #dt.layer<"h"[1]>, dt.part = 1 : i64} : tensor<2x8xf32> -> tensor<2x4xf32>
  return %s0, %s1 : tensor<2x4xf32>, tensor<2x4xf32>
}

// What is done at once fills the time in which all parts wait.
// CHECK-LABEL: @weights_are_for_waiting
// CHECK: dt.all_reduce {{.*}}dt.part = 0
// CHECK-NEXT: dt.all_reduce {{.*}}dt.part = 1
// CHECK-NEXT: dt.contract "bd,bf->df"
// CHECK-NEXT: dt.contract {{.*}}dt.part = 0
// CHECK-NEXT: dt.contract {{.*}}dt.part = 1
func.func @weights_are_for_waiting(%x0: tensor<8x8xf32>, %x1: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) {
  %g0 = dt.all_reduce sum %x0 over [#dt.axis_ref<"tp", 1, 0>] {dt.part = 0 : i64} : tensor<8x8xf32> -> tensor<8x8xf32>
  %g1 = dt.all_reduce sum %x1 over [#dt.axis_ref<"tp", 1, 0>] {dt.part = 1 : i64} : tensor<8x8xf32> -> tensor<8x8xf32>
  %a0 = dt.contract "bd,df->bf" %g0, %w {dt.part = 0 : i64} : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %a1 = dt.contract "bd,df->bf" %g1, %w {dt.part = 1 : i64} : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %d = dt.contract "bd,bf->df" %x0, %x1 : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  return %a0, %a1, %d : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
}

// What overwrites a table comes behind those who read it, whatever the parts wait for.
// CHECK-LABEL: @readers_of_what_is_overwritten_come_first
// CHECK: dt.contract
// CHECK: dt.scatter_add
func.func @readers_of_what_is_overwritten_come_first(%x: tensor<2x3xf32>, %t: tensor<5x3xf32>, %i: tensor<2xi32>) -> (tensor<2x5xf32>, tensor<5x3xf32>) {
  %g = dt.all_reduce sum %x over [#dt.axis_ref<"tp", 1, 0>] {dt.part = 0 : i64} : tensor<2x3xf32> -> tensor<2x3xf32>
  %a = dt.contract "bd,vd->bv" %g, %t {dt.part = 0 : i64} : tensor<2x3xf32>, tensor<5x3xf32> -> tensor<2x5xf32>
  %s = dt.scatter_add %t, %i, %x : tensor<5x3xf32>, tensor<2xi32>, tensor<2x3xf32>
  return %a, %s : tensor<2x5xf32>, tensor<5x3xf32>
}

// CHECK-LABEL: @without_parts_all_stays
// CHECK-NEXT: dt.all_reduce
// CHECK-NEXT: dt.exp
// CHECK-NEXT: dt.neg
func.func @without_parts_all_stays(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %g = dt.all_reduce sum %x over [#dt.axis_ref<"tp", 1, 0>] : tensor<2xf32> -> tensor<2xf32>
  %e = dt.exp %g : tensor<2xf32>
  %n = dt.neg %x : tensor<2xf32>
  return %e, %n : tensor<2xf32>, tensor<2xf32>
}

}
