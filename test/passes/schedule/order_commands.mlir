// RUN: dtc-opt %s --dt-order-commands="rules='order = [{move = \"all_reduce h.*.w\", after = \"exp h.*\", layer = 1}]'" | FileCheck %s
// RUN: not dtc-opt %s --dt-order-commands="rules='order = [{move = \"wait all_reduce h.*.w\", before = \"all_reduce h.*.w\"}]'" 2>&1 | FileCheck %s --check-prefix=BROKEN
// RUN: not dtc-opt %s --dt-order-commands="rules='order = [{move = \"all_reduce h.*.v\", before = \"exp h.*\"}]'" 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not dtc-opt %s --dt-order-commands="rules='order = [{move = \"neg\", after = \"add\"}]'" 2>&1 | FileCheck %s --check-prefix=OVERWRITTEN
// RUN: not dtc-opt %s --dt-order-commands="rules='ordre = 1'" 2>&1 | FileCheck %s --check-prefix=KEY

// BROKEN: order: list 'micro': 'wait all_reduce h.*.w' of h.0 cannot come before 'all_reduce h.*.w' of h.0, which must be done first
// UNKNOWN: rules:1: no command is called 'all_reduce h.*.v'; did you mean 'all_reduce h.*.w'?
// OVERWRITTEN: order: list 'micro': 'add' cannot come before 'neg', which must be done first
// KEY: rules:1: unknown key 'ordre'; did you mean 'order'?

module attributes {dt.mesh = #dt.mesh<"dp" = 2>} {

// The sum is returned in place of %x, so whatever reads %x comes before. Each layer's reduction starts behind the next layer's exp; the last layer's, of which there is no next one, stays.
// CHECK-LABEL: @micro
func.func @micro(%x: tensor<8xf32> {dt.port = #dt.port<gradient "x">})
    -> (tensor<8xf32> {dt.port = #dt.port<output "y">}, tensor<8xf32> {dt.port = #dt.port<output "n">}, tensor<8xf32> {dt.port = #dt.port<gradient "x">}) {
  // CHECK-NEXT: %[[A:.*]] = dt.exp %arg0
  // CHECK-NEXT: %[[B:.*]] = dt.exp %arg0
  // CHECK-NEXT: %[[FA:.*]] = dt.all_reduce sum %[[A]]
  // CHECK-NEXT: %[[FB:.*]] = dt.all_reduce sum %[[B]]
  // CHECK-NEXT: %[[WA:.*]] = dt.wait %[[FA]]
  // CHECK-NEXT: %[[WB:.*]] = dt.wait %[[FB]]
  // CHECK-NEXT: %[[Y:.*]] = dt.mul %[[WA]], %[[WB]]
  // CHECK-NEXT: %[[N:.*]] = dt.neg %arg0
  // CHECK-NEXT: %[[Z:.*]] = dt.add %[[Y]], %[[Y]]
  // CHECK-NEXT: return %[[Y]], %[[N]], %[[Z]]
  %a = dt.exp %x {dt.layer = #dt.layer<"h"[0]>} : tensor<8xf32> loc("h.0")
  %fa = dt.all_reduce sum %a over [#dt.axis_ref<"dp", 1, 0>] {dt.layer = #dt.layer<"h"[0]>} : tensor<8xf32> -> !dt.future<tensor<8xf32>> loc("h.0.w")
  %b = dt.exp %x {dt.layer = #dt.layer<"h"[1]>} : tensor<8xf32> loc("h.1")
  %fb = dt.all_reduce sum %b over [#dt.axis_ref<"dp", 1, 0>] {dt.layer = #dt.layer<"h"[1]>} : tensor<8xf32> -> !dt.future<tensor<8xf32>> loc("h.1.w")
  %wa = dt.wait %fa {dt.layer = #dt.layer<"h"[0]>} : !dt.future<tensor<8xf32>> -> tensor<8xf32> loc("h.0.w")
  %wb = dt.wait %fb {dt.layer = #dt.layer<"h"[1]>} : !dt.future<tensor<8xf32>> -> tensor<8xf32> loc("h.1.w")
  %y = dt.mul %wa, %wb : tensor<8xf32> loc("")
  %n = dt.neg %x : tensor<8xf32> loc("")
  %z = dt.add %y, %y : tensor<8xf32> loc("")
  return %y, %n, %z : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}
}
