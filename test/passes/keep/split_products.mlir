// RUN: dtc-opt %s --split-input-file --dt-split-products=rules=h.*=2 | FileCheck %s
// RUN: dtc-opt %s --split-input-file --dt-split-products=rules=g.*=2 | FileCheck %s --check-prefix=OTHER
// RUN: sh -c 'dtc-opt %s --split-input-file "--dt-split-products=rules=h.*=2,*=1"' | FileCheck %s --check-prefix=OTHER
// RUN: sh -c 'dtc-opt %s --split-input-file --dt-split-products=rules=h.*=0; test $? = 1' 2>&1 | FileCheck %s --check-prefix=REFUSED

// REFUSED: error: 'h.*=0' is not PATTERN=PARTS, where PARTS is a number, 1 or more
// OTHER-NOT: dt.part

module attributes {dt.mesh = #dt.mesh<"tp" = 2>} {

// Each part is gathered, multiplied and summed up by itself; the gradient of the weight reads the whole, which is put
// together where that begins.
// CHECK-LABEL: @a_layer_in_two_parts
// CHECK-SAME: (%[[X:.*]]: tensor<4x8x6xf32>, %[[W:.*]]: tensor<6x5xf32>, %[[V:.*]]: tensor<5x6xf32>, %[[E:.*]]: tensor<4x16x5xf32>)
// CHECK-NEXT: %[[X0:.*]] = dt.slice %[[X]] at [0, 0, 0] {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>, dt.part = 0 : i64} : tensor<4x8x6xf32> -> tensor<2x8x6xf32>
// CHECK-NEXT: %[[G0:.*]] = dt.all_gather %[[X0]] along 1 over [#dt.axis_ref<"tp", 1, 0>] {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>, dt.part = 0 : i64} : tensor<2x8x6xf32> -> tensor<2x16x6xf32>
// CHECK-NEXT: %[[X1:.*]] = dt.slice %[[X]] at [2, 0, 0]
// CHECK-NEXT: %[[G1:.*]] = dt.all_gather %[[X1]] along 1 {{.*}}dt.part = 1
// CHECK-NEXT: %[[Y0:.*]] = dt.contract "bsd,df->bsf" %[[G0]], %[[W]] {{.*}}dt.part = 0{{.*}} -> tensor<2x16x5xf32>
// CHECK-NEXT: %[[Y1:.*]] = dt.contract "bsd,df->bsf" %[[G1]], %[[W]] {{.*}}dt.part = 1
// CHECK-NEXT: %[[Z0:.*]] = dt.contract "bsf,fd->bsd" %[[Y0]], %[[V]] {{.*}}dt.part = 0
// CHECK-NEXT: %[[Z1:.*]] = dt.contract "bsf,fd->bsd" %[[Y1]], %[[V]] {{.*}}dt.part = 1
// CHECK-NEXT: %[[R0:.*]] = dt.reduce_scatter sum %[[Z0]] along 1 {{.*}}dt.part = 0{{.*}} -> tensor<2x8x6xf32>
// CHECK-NEXT: %[[R1:.*]] = dt.reduce_scatter sum %[[Z1]] along 1 {{.*}}dt.part = 1
// CHECK-NEXT: %[[G:.*]] = dt.concat %[[G0]], %[[G1]] along 0 {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>} : tensor<2x16x6xf32>, tensor<2x16x6xf32> -> tensor<4x16x6xf32>
// CHECK-NEXT: %[[D:.*]] = dt.contract "bsd,bsf->df" %[[G]], %[[E]] {dt.direction = #dt.direction<weight_gradient>, dt.layer = #dt.layer<"h"[0]>}
// CHECK-NEXT: %[[R:.*]] = dt.concat %[[R0]], %[[R1]] along 0
// CHECK-NEXT: return %[[R]], %[[D]]
func.func @a_layer_in_two_parts(%x: tensor<4x8x6xf32>, %w: tensor<6x5xf32>, %v: tensor<5x6xf32>, %e: tensor<4x16x5xf32>) -> (tensor<4x8x6xf32>, tensor<6x5xf32>) {
  %g = dt.all_gather %x along 1 over [#dt.axis_ref<"tp", 1, 0>] {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>} : tensor<4x8x6xf32> -> tensor<4x16x6xf32>
  %y = dt.contract "bsd,df->bsf" %g, %w {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>} : tensor<4x16x6xf32>, tensor<6x5xf32> -> tensor<4x16x5xf32>
  %z = dt.contract "bsf,fd->bsd" %y, %v {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>} : tensor<4x16x5xf32>, tensor<5x6xf32> -> tensor<4x16x6xf32>
  %r = dt.reduce_scatter sum %z along 1 over [#dt.axis_ref<"tp", 1, 0>] {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>} : tensor<4x16x6xf32> -> tensor<4x8x6xf32>
  %d = dt.contract "bsd,bsf->df" %g, %e {dt.direction = #dt.direction<weight_gradient>, dt.layer = #dt.layer<"h"[0]>} : tensor<4x16x6xf32>, tensor<4x16x5xf32> -> tensor<6x5xf32>
  return %r, %d : tensor<4x8x6xf32>, tensor<6x5xf32>
}

// A layer passes its parts on to the next, and operations outside the layers get the whole.
// CHECK-LABEL: @parts_go_from_layer_to_layer
// CHECK: %[[A0:.*]] = dt.all_reduce sum {{.*}}dt.part = 0
// CHECK-NEXT: dt.slice
// CHECK-NEXT: %[[A1:.*]] = dt.all_reduce sum {{.*}}dt.part = 1
// CHECK-NEXT: %[[B0:.*]] = dt.contract "bd,de->be" %[[A0]], %arg1 {{.*}}"h"[1]>, dt.part = 0
// CHECK-NEXT: %[[B1:.*]] = dt.contract "bd,de->be" %[[A1]], %arg1 {{.*}}"h"[1]>, dt.part = 1
// CHECK-NEXT: %[[B:.*]] = dt.concat %[[B0]], %[[B1]]
// CHECK-NEXT: dt.neg %[[B]] {dt.direction = #dt.direction<forward>} : tensor<4x3xf32>
func.func @parts_go_from_layer_to_layer(%x: tensor<4x3xf32>, %w: tensor<3x3xf32>) -> tensor<4x3xf32> {
  %a = dt.all_reduce sum %x over [#dt.axis_ref<"tp", 1, 0>] {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>} : tensor<4x3xf32> -> tensor<4x3xf32>
  %b = dt.contract "bd,de->be" %a, %w {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[1]>} : tensor<4x3xf32>, tensor<3x3xf32> -> tensor<4x3xf32>
  %c = dt.neg %b {dt.direction = #dt.direction<forward>} : tensor<4x3xf32>
  return %c : tensor<4x3xf32>
}

// What is computed where it is read is made whole for who reads the whole, and nothing is put together for that.
// CHECK-LABEL: @light_values_are_made_whole_too
// CHECK: %[[E:.*]] = dt.exp %arg0 {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>} : tensor<4x3xf32>
// CHECK: dt.reduce sum %[[E]] over [0]
func.func @light_values_are_made_whole_too(%x: tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<3xf32>) {
  %e = dt.exp %x {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>} : tensor<4x3xf32>
  %n = dt.neg %e {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>} : tensor<4x3xf32>
  %a = dt.all_reduce sum %n over [#dt.axis_ref<"tp", 1, 0>] {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>} : tensor<4x3xf32> -> tensor<4x3xf32>
  %s = dt.reduce sum %e over [0] {dt.direction = #dt.direction<weight_gradient>, dt.layer = #dt.layer<"h"[0]>} : tensor<4x3xf32> -> tensor<3xf32>
  return %a, %s : tensor<4x3xf32>, tensor<3xf32>
}

// The samples of the second part are counted on: masks are those of the whole.
// CHECK-LABEL: @draws_are_those_of_the_whole
// CHECK: %[[R0:.*]] = dt.random %arg1 site 7 of [4, 3] {{.*}}dt.part = 0{{.*}} -> tensor<2x3xf32>
// CHECK: %[[WORD:.*]] = dt.iota 0
// CHECK: %[[TWO:.*]] = dt.constant dense<2> : tensor<4xi32>
// CHECK: %[[THIRD:.*]] = dt.compare eq %[[WORD]], %[[TWO]]
// CHECK: %[[MORE:.*]] = dt.select %[[THIRD]]
// CHECK: %[[KEY:.*]] = dt.add %arg1, %[[MORE]] {{.*}}dt.part = 1
// CHECK: dt.random %[[KEY]] site 7 of [4, 3] {{.*}}dt.part = 1{{.*}} -> tensor<2x3xf32>
// CHECK-NOT: dt.random
func.func @draws_are_those_of_the_whole(%x: tensor<4x3xf32>, %key: tensor<4xi32>) -> tensor<4x3xf32> {
  %r = dt.random %key site 7 of [4, 3] {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>} : tensor<4xi32> -> tensor<4x3xf32>
  %m = dt.mul %x, %r {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>} : tensor<4x3xf32>
  %a = dt.all_reduce sum %m over [#dt.axis_ref<"tp", 1, 0>] {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>} : tensor<4x3xf32> -> tensor<4x3xf32>
  return %a : tensor<4x3xf32>
}

// Where ranks split the samples further, a part cannot be told its place: the draw stays whole, and parts of it are read.
// CHECK-LABEL: @what_depends_on_its_place_stays_whole
// CHECK: %[[R:.*]] = dt.random {{.*}} -> tensor<4x3xf32>
// CHECK: dt.slice %[[R]] at [0, 0]
// CHECK: dt.slice %[[R]] at [2, 0]
func.func @what_depends_on_its_place_stays_whole(%x: tensor<4x3xf32>, %key: tensor<4xi32>) -> tensor<4x3xf32> {
  %r = dt.random %key site 7 of [8, 3] sharded <[{"tp"}, {}]> {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>} : tensor<4xi32> -> tensor<4x3xf32>
  %m = dt.mul %x, %r {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>} : tensor<4x3xf32>
  %a = dt.all_reduce sum %m over [#dt.axis_ref<"tp", 1, 0>] {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>} : tensor<4x3xf32> -> tensor<4x3xf32>
  return %a : tensor<4x3xf32>
}

// What does not divide, what moves along that dimension, and gathers of parameters stay as they are.
// CHECK-LABEL: @what_cannot_be_split_stays
// CHECK-NOT: dt.part
// CHECK: return
func.func @what_cannot_be_split_stays(%x: tensor<3x4xf32>, %y: tensor<4x4xf32>, %w: tensor<4x4xf32> {dt.port = #dt.port<parameter "w">}) -> (tensor<3x4xf32>, tensor<8x4xf32>, tensor<4x8xf32>) {
  %a = dt.all_reduce sum %x over [#dt.axis_ref<"tp", 1, 0>] {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>} : tensor<3x4xf32> -> tensor<3x4xf32>
  %b = dt.all_gather %y along 0 over [#dt.axis_ref<"tp", 1, 0>] {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>} : tensor<4x4xf32> -> tensor<8x4xf32>
  %c = dt.all_gather %w along 1 over [#dt.axis_ref<"tp", 1, 0>] {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>} : tensor<4x4xf32> -> tensor<4x8xf32>
  return %a, %b, %c : tensor<3x4xf32>, tensor<8x4xf32>, tensor<4x8xf32>
}

}
