// RUN: dtc-opt %s --dt-bucket-collectives="rules='bucket = [{starts = [\"update all_reduce h.*.w\", \"update all_reduce h.*.b\"], layers = 2}]'" | FileCheck %s
// RUN: dtc-opt %s --dt-bucket-collectives="rules='bucket = [{starts = [\"update all_reduce h.*.b\"], layers = 3}]'" | FileCheck %s --check-prefix=ONE
// RUN: dtc-opt %s --dt-bucket-collectives="rules='bucket_bytes = 40'" | FileCheck %s --check-prefix=BYTES
// RUN: not dtc-opt %s --dt-bucket-collectives="rules='bucket_bytes = 1000'" 2>&1 | FileCheck %s --check-prefix=LARGE
// RUN: not dtc-opt %s --dt-bucket-collectives="rules='bucket_bytes = 0'" 2>&1 | FileCheck %s --check-prefix=ZERO
// RUN: not dtc-opt %s --dt-bucket-collectives="rules='bucket = [{starts = [\"update all_reduce h.*.v\"]}]'" 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not dtc-opt %s --dt-bucket-collectives="rules='bucket = [{starts = [\"forward all_reduce h.*.x\"]}]'" 2>&1 | FileCheck %s --check-prefix=ALONE

// LARGE: bucket_bytes 1KB is more than all gradients that a list reduces, 120 bytes: nothing would be reduced until the last of them is ready. Write fewer bytes, or "auto"
// ZERO: rules:1: bucket_bytes: '0' is not a size; write a number of bytes above 0, as in "25MB", "auto" or "none"
// UNKNOWN: rules:1: bucket: no collective is called 'update all_reduce h.*.v'; did you mean 'update all_reduce h.*.b'?
// ALONE: rules:1: bucket: 'forward all_reduce h.*.x' neither reduces a gradient nor gathers a parameter, or other stages take part: it starts by itself

module attributes {dt.mesh = #dt.mesh<"dp" = 2>} {

// Three layers, two to a bucket: the third's reductions are one of two parts. What another kind of part of the step reduces is not touched, and nothing is that somebody waits for before.
// CHECK-LABEL: @micro
// ONE-LABEL: @micro
// BYTES-LABEL: @micro
func.func @micro(%x: tensor<8xf32> {dt.port = #dt.port<gradient "x">}, %s: tensor<2xf32> {dt.port = #dt.port<gradient "s">})
    -> (tensor<8xf32> {dt.port = #dt.port<output "y">}, tensor<2xf32> {dt.port = #dt.port<output "z">}) {
  // CHECK-NEXT: %[[A:.*]] = dt.exp %arg0
  // CHECK-NEXT: %[[FX:.*]] = dt.all_reduce sum %[[A]]{{.*}}direction<forward>
  // CHECK-NEXT: %[[C:.*]] = dt.exp %arg1
  // CHECK-NEXT: %[[B:.*]] = dt.neg %[[A]]
  // CHECK-NEXT: %[[D:.*]] = dt.neg %[[C]]
  // CHECK-NEXT: %[[F0:.*]] = dt.all_reduce sum %[[A]]{{.*}}dt.bucket = 0
  // CHECK-NEXT: %[[F1:.*]] = dt.all_reduce sum %[[C]]{{.*}}dt.bucket = 0
  // CHECK-NEXT: %[[F2:.*]] = dt.all_reduce sum %[[B]]{{.*}}dt.bucket = 0
  // CHECK-NEXT: %[[F3:.*]] = dt.all_reduce sum %[[D]]{{.*}}dt.bucket = 0
  // CHECK-NEXT: %[[E:.*]] = dt.exp %[[B]]
  // CHECK-NEXT: %[[G:.*]] = dt.exp %[[D]]
  // CHECK-NEXT: %[[F4:.*]] = dt.all_reduce sum %[[E]]{{.*}}dt.bucket = 1
  // CHECK-NEXT: %[[F5:.*]] = dt.all_reduce sum %[[G]]{{.*}}dt.bucket = 1
  // CHECK-NEXT: dt.wait %[[FX]]
  // CHECK-NEXT: dt.wait %[[F0]]
  // CHECK-NEXT: dt.wait %[[F1]]
  // CHECK-NEXT: dt.wait %[[F2]]
  // CHECK-NEXT: dt.wait %[[F3]]
  // CHECK-NEXT: dt.wait %[[F4]]
  // CHECK-NEXT: dt.wait %[[F5]]
  // ONE-COUNT-4: tensor<8xf32> -> !dt.future
  // ONE-COUNT-3: all_reduce sum %{{.*}}dt.bucket = 0{{.*}}tensor<2xf32>
  // What has 32 bytes and 8 fits into 40; two layers do not.
  // BYTES-COUNT-2: dt.bucket = 0{{.*}}why = "bucket_bytes 40: 1 layer of 40 bytes, as many as fit"
  // BYTES-COUNT-2: dt.bucket = 1
  // BYTES-COUNT-2: dt.bucket = 2
  %a = dt.exp %x {dt.layer = #dt.layer<"h"[2]>} : tensor<8xf32> loc("h.2")
  %fx = dt.all_reduce sum %a over [#dt.axis_ref<"dp", 1, 0>] {dt.layer = #dt.layer<"h"[2]>, dt.direction = #dt.direction<forward>} : tensor<8xf32> -> !dt.future<tensor<8xf32>> loc("h.2.x")
  %fa = dt.all_reduce sum %a over [#dt.axis_ref<"dp", 1, 0>] {dt.layer = #dt.layer<"h"[2]>, dt.direction = #dt.direction<update>} : tensor<8xf32> -> !dt.future<tensor<8xf32>> loc("h.2.w")
  %c = dt.exp %s {dt.layer = #dt.layer<"h"[2]>} : tensor<2xf32> loc("h.2")
  %fc = dt.all_reduce sum %c over [#dt.axis_ref<"dp", 1, 0>] {dt.layer = #dt.layer<"h"[2]>, dt.direction = #dt.direction<update>} : tensor<2xf32> -> !dt.future<tensor<2xf32>> loc("h.2.b")
  %b = dt.neg %a {dt.layer = #dt.layer<"h"[1]>} : tensor<8xf32> loc("h.1")
  %fb = dt.all_reduce sum %b over [#dt.axis_ref<"dp", 1, 0>] {dt.layer = #dt.layer<"h"[1]>, dt.direction = #dt.direction<update>} : tensor<8xf32> -> !dt.future<tensor<8xf32>> loc("h.1.w")
  %d = dt.neg %c {dt.layer = #dt.layer<"h"[1]>} : tensor<2xf32> loc("h.1")
  %fd = dt.all_reduce sum %d over [#dt.axis_ref<"dp", 1, 0>] {dt.layer = #dt.layer<"h"[1]>, dt.direction = #dt.direction<update>} : tensor<2xf32> -> !dt.future<tensor<2xf32>> loc("h.1.b")
  %e = dt.exp %b {dt.layer = #dt.layer<"h"[0]>} : tensor<8xf32> loc("h.0")
  %fe = dt.all_reduce sum %e over [#dt.axis_ref<"dp", 1, 0>] {dt.layer = #dt.layer<"h"[0]>, dt.direction = #dt.direction<update>} : tensor<8xf32> -> !dt.future<tensor<8xf32>> loc("h.0.w")
  %g = dt.exp %d {dt.layer = #dt.layer<"h"[0]>} : tensor<2xf32> loc("h.0")
  %fg = dt.all_reduce sum %g over [#dt.axis_ref<"dp", 1, 0>] {dt.layer = #dt.layer<"h"[0]>, dt.direction = #dt.direction<update>} : tensor<2xf32> -> !dt.future<tensor<2xf32>> loc("h.0.b")
  %wx = dt.wait %fx : !dt.future<tensor<8xf32>> -> tensor<8xf32> loc("h.2.x")
  %wa = dt.wait %fa : !dt.future<tensor<8xf32>> -> tensor<8xf32> loc("h.2.w")
  %wb = dt.wait %fb : !dt.future<tensor<8xf32>> -> tensor<8xf32> loc("h.1.w")
  %we = dt.wait %fe : !dt.future<tensor<8xf32>> -> tensor<8xf32> loc("h.0.w")
  %y0 = dt.add %wx, %wa : tensor<8xf32> loc("")
  %y1 = dt.add %y0, %wb : tensor<8xf32> loc("")
  %y = dt.add %y1, %we : tensor<8xf32> loc("")
  %wc = dt.wait %fc : !dt.future<tensor<2xf32>> -> tensor<2xf32> loc("h.2.b")
  %wd = dt.wait %fd : !dt.future<tensor<2xf32>> -> tensor<2xf32> loc("h.1.b")
  %wg = dt.wait %fg : !dt.future<tensor<2xf32>> -> tensor<2xf32> loc("h.0.b")
  %z0 = dt.add %wc, %wd : tensor<2xf32> loc("")
  %z = dt.add %z0, %wg : tensor<2xf32> loc("")
  return %y, %z : tensor<8xf32>, tensor<2xf32>
}
}
