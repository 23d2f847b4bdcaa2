// RUN: dtc-opt %s --dt-split-offloads | FileCheck %s
// What is split already stays as it is.
// RUN: dtc-opt %s --dt-split-offloads --dt-split-offloads | FileCheck %s

module attributes {dt.mesh = #dt.mesh<"dp" = 1>} {

// A copy to the host is waited for when the layer behind its own is over; one back starts with the layer before the one
// that reads it. The last layer to be copied is waited for where the backward pass begins.
// CHECK-LABEL: func.func @a_layer_apart
// CHECK: %[[A:.*]] = dt.exp %arg0 {dt.layer = #dt.layer<"h"[0]>}
// CHECK-NEXT: %[[OUT_A:.*]] = dt.offload %[[A]] {{.*}} -> !dt.future<tensor<8xf32>>
// CHECK-NEXT: %[[B:.*]] = dt.exp %[[A]] {dt.layer = #dt.layer<"h"[1]>}
// CHECK-NEXT: %[[OUT_B:.*]] = dt.offload %[[B]] {{.*}} -> !dt.future<tensor<8xf32>>
// CHECK-NEXT: %[[HOST_A:.*]] = dt.wait %[[OUT_A]] {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>}
// CHECK-NEXT: %[[C:.*]] = dt.exp %[[B]] {dt.layer = #dt.layer<"h"[2]>}
// CHECK-NEXT: %[[HOST_B:.*]] = dt.wait %[[OUT_B]]
// CHECK-NEXT: %[[BACK_B:.*]] = dt.fetch %[[HOST_B]] {{.*}} -> !dt.future<tensor<8xf32>>
// CHECK-NEXT: %[[DC:.*]] = dt.neg %[[C]]
// CHECK-NEXT: %[[BACK_A:.*]] = dt.fetch %[[HOST_A]] {{.*}} -> !dt.future<tensor<8xf32>>
// CHECK-NEXT: %[[THERE_B:.*]] = dt.wait %[[BACK_B]]
// CHECK-NEXT: %[[DB:.*]] = dt.mul %[[DC]], %[[THERE_B]]
// CHECK-NEXT: %[[THERE_A:.*]] = dt.wait %[[BACK_A]]
// CHECK-NEXT: dt.reshape %[[THERE_A]]
func.func @a_layer_apart(%x: tensor<8xf32>) -> tensor<2x4xf32> {
  %a = dt.exp %x {dt.layer = #dt.layer<"h"[0]>} : tensor<8xf32>
  %oa = dt.offload %a {dt.layer = #dt.layer<"h"[0]>, dt.direction = #dt.direction<forward>} : tensor<8xf32> -> tensor<8xf32>
  %b = dt.exp %a {dt.layer = #dt.layer<"h"[1]>} : tensor<8xf32>
  %ob = dt.offload %b {dt.layer = #dt.layer<"h"[1]>, dt.direction = #dt.direction<forward>} : tensor<8xf32> -> tensor<8xf32>
  %c = dt.exp %b {dt.layer = #dt.layer<"h"[2]>} : tensor<8xf32>
  %dc = dt.neg %c {dt.layer = #dt.layer<"h"[2]>, dt.direction = #dt.direction<input_gradient>} : tensor<8xf32>
  %fb = dt.fetch %ob {dt.layer = #dt.layer<"h"[1]>, dt.direction = #dt.direction<input_gradient>} : tensor<8xf32> -> tensor<8xf32>
  %db = dt.mul %dc, %fb {dt.layer = #dt.layer<"h"[1]>, dt.direction = #dt.direction<input_gradient>} : tensor<8xf32>
  %fa = dt.fetch %oa {dt.layer = #dt.layer<"h"[0]>, dt.direction = #dt.direction<input_gradient>} : tensor<8xf32> -> tensor<8xf32>
  %va = dt.reshape %fa {dt.direction = #dt.direction<input_gradient>} : tensor<8xf32> -> tensor<2x4xf32>
  %vb = dt.reshape %db : tensor<8xf32> -> tensor<2x4xf32>
  %da = dt.mul %vb, %va {dt.layer = #dt.layer<"h"[0]>, dt.direction = #dt.direction<input_gradient>} : tensor<2x4xf32>
  return %da : tensor<2x4xf32>
}

// Where no layer comes before, a copy back starts right before its reader.
// CHECK-LABEL: func.func @first_layer_of_the_backward_pass
// CHECK: %[[OUT:.*]] = dt.offload
// CHECK: dt.exp {{.*}}"h"[1]
// CHECK-NEXT: %[[HOST:.*]] = dt.wait %[[OUT]]
// CHECK-NEXT: %[[BACK:.*]] = dt.fetch %[[HOST]]
// CHECK-NEXT: %[[THERE:.*]] = dt.wait %[[BACK]]
// CHECK-NEXT: dt.mul %{{.*}}, %[[THERE]]
func.func @first_layer_of_the_backward_pass(%x: tensor<8xf32>) -> tensor<8xf32> {
  %a = dt.exp %x {dt.layer = #dt.layer<"h"[0]>} : tensor<8xf32>
  %oa = dt.offload %a {dt.layer = #dt.layer<"h"[0]>, dt.direction = #dt.direction<forward>} : tensor<8xf32> -> tensor<8xf32>
  %b = dt.exp %a {dt.layer = #dt.layer<"h"[1]>} : tensor<8xf32>
  %fa = dt.fetch %oa {dt.layer = #dt.layer<"h"[0]>, dt.direction = #dt.direction<input_gradient>} : tensor<8xf32> -> tensor<8xf32>
  %da = dt.mul %b, %fa {dt.layer = #dt.layer<"h"[0]>, dt.direction = #dt.direction<input_gradient>} : tensor<8xf32>
  return %da : tensor<8xf32>
}

// Parts of the batch take turns: one is in layer 2 before what both make in layer 0 is put together. A copy is never waited
// for before it starts.
// CHECK-LABEL: func.func @parts_that_take_turns
// CHECK: dt.concat
// CHECK-NEXT: %[[OUT:.*]] = dt.offload {{.*}} -> !dt.future<tensor<8xf32>>
// CHECK-NEXT: %[[HOST:.*]] = dt.wait %[[OUT]]
// CHECK-NEXT: dt.exp {{.*}}"h"[3]
// CHECK-NEXT: %[[BACK:.*]] = dt.fetch %[[HOST]]
// CHECK-NEXT: %[[THERE:.*]] = dt.wait %[[BACK]]
// CHECK-NEXT: dt.mul %{{.*}}, %[[THERE]]
func.func @parts_that_take_turns(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<8xf32>, tensor<4xf32>, tensor<4xf32>) {
  %a = dt.exp %x {dt.layer = #dt.layer<"h"[0]>} : tensor<4xf32>
  %b = dt.exp %a {dt.layer = #dt.layer<"h"[1]>} : tensor<4xf32>
  %c = dt.exp %b {dt.layer = #dt.layer<"h"[2]>} : tensor<4xf32>
  %d = dt.exp %y {dt.layer = #dt.layer<"h"[0]>} : tensor<4xf32>
  %w = dt.concat %a, %d along 0 {dt.layer = #dt.layer<"h"[0]>} : tensor<4xf32>, tensor<4xf32> -> tensor<8xf32>
  %o = dt.offload %w {dt.layer = #dt.layer<"h"[0]>, dt.direction = #dt.direction<forward>} : tensor<8xf32> -> tensor<8xf32>
  %e = dt.exp %c {dt.layer = #dt.layer<"h"[3]>} : tensor<4xf32>
  %f = dt.fetch %o {dt.layer = #dt.layer<"h"[0]>, dt.direction = #dt.direction<input_gradient>} : tensor<8xf32> -> tensor<8xf32>
  %g = dt.mul %w, %f {dt.layer = #dt.layer<"h"[0]>, dt.direction = #dt.direction<input_gradient>} : tensor<8xf32>
  %h = dt.exp %e {dt.layer = #dt.layer<"h"[1]>, dt.direction = #dt.direction<input_gradient>} : tensor<4xf32>
  return %g, %e, %h : tensor<8xf32>, tensor<4xf32>, tensor<4xf32>
}

}
