// RUN: dtc-opt %s --split-input-file --dt-cut | FileCheck %s

// What all ranks over tp have crosses in parts, along the first dimension that they divide, and is gathered where it is
// first read: the activation forward, the gradient backward. The whole of it is kept for the backward pass.
// CHECK: module attributes {dt.crossing = ["sliced"], dt.mesh =

// CHECK-LABEL: func.func @micro_last.forward.0(
// CHECK-SAME: -> (tensor<3x4xf32> {dt.port = #dt.port<sent "h.0">})
// CHECK-NEXT: %[[Y0:.*]] = dt.mul
// CHECK-NEXT: %[[PART:.*]] = dt.shard_slice %[[Y0]] along 1 over [#dt.axis_ref<"tp", 1, 0>] {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>} : tensor<3x8xf32> -> tensor<3x4xf32>
// CHECK-NEXT: return %[[PART]] : tensor<3x4xf32>

// CHECK-LABEL: func.func @micro_last.forward.1(
// CHECK-SAME: [[PART:%[^:]*]]: tensor<3x4xf32> {dt.port = #dt.port<received "h.0">}
// CHECK-NEXT: %[[Y0:.*]] = dt.all_gather [[PART]] along 1 over [#dt.axis_ref<"tp", 1, 0>] {dt.direction = #dt.direction<forward>, reason = "the same on all ranks over tp, so each of them in the stage before sent one part over the cut"} : tensor<3x4xf32> -> tensor<3x8xf32>
// CHECK-NEXT: %[[Y1:.*]] = dt.mul %[[Y0]],
// CHECK-NEXT: %[[E:.*]] = dt.exp %[[Y1]]
// CHECK-NEXT: return %[[E]], %[[Y0]] : tensor<3x8xf32>, tensor<3x8xf32>

// CHECK-LABEL: func.func @micro_last.backward.1(
// CHECK-SAME: -> (tensor<3x4xf32> {dt.port = #dt.port<sent_gradient "h.1">}, tensor<3x8xf32> {dt.port = #dt.port<reduced_gradient "h.1.w">})
// CHECK-NEXT: %[[G1:.*]] = dt.mul
// CHECK-NEXT: %[[D0:.*]] = dt.mul
// CHECK-NEXT: %[[PART:.*]] = dt.shard_slice %[[D0]] along 1 {{.*}}input_gradient
// CHECK-NEXT: return %[[PART]], %[[G1]]

// CHECK-LABEL: func.func @micro_last.backward.0(
// CHECK-SAME: [[PART:%[^:]*]]: tensor<3x4xf32> {dt.port = #dt.port<received_gradient "h.1">}
// CHECK-NEXT: %[[D0:.*]] = dt.all_gather [[PART]] along 1 {{.*}}input_gradient>, reason = "the same on all ranks over tp, so each of them in the next stage sent one part over the cut"
// CHECK-NEXT: %[[G0:.*]] = dt.mul %[[D0]],
// CHECK-NEXT: return %[[G0]]

module attributes {dt.mesh = #dt.mesh<"pp" = 2, "tp" = 2>, dt.crossing = ["sliced"]} {
func.func @micro_last(%w0: tensor<3x8xf32> {dt.port = #dt.port<parameter "h.0.w", placed = <[{}, {}]>>},
                      %w1: tensor<3x8xf32> {dt.port = #dt.port<parameter "h.1.w", placed = <[{}, {}]>>},
                      %x: tensor<3x8xf32> {dt.port = #dt.port<input "x", placed = <[{}, {}]>>})
    -> (tensor<3x8xf32> {dt.port = #dt.port<reduced_gradient "h.0.w">},
        tensor<3x8xf32> {dt.port = #dt.port<reduced_gradient "h.1.w">}) {
  %y0 = dt.mul %x, %w0 {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>} : tensor<3x8xf32> loc("h.0")
  %y1 = dt.mul %y0, %w1 {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[1]>} : tensor<3x8xf32> loc("h.1")
  %e = dt.exp %y1 {dt.direction = #dt.direction<forward>} : tensor<3x8xf32> loc("head")
  %g1 = dt.mul %e, %y0 {dt.direction = #dt.direction<weight_gradient>, dt.layer = #dt.layer<"h"[1]>} : tensor<3x8xf32>
  %d0 = dt.mul %e, %w1 {dt.direction = #dt.direction<input_gradient>, dt.layer = #dt.layer<"h"[1]>} : tensor<3x8xf32> loc("h.1")
  %g0 = dt.mul %d0, %x {dt.direction = #dt.direction<weight_gradient>, dt.layer = #dt.layer<"h"[0]>} : tensor<3x8xf32>
  return %g0, %g1 : tensor<3x8xf32>, tensor<3x8xf32>
}
}

// -----

// A stage hands on the part that it has received. It slices only what it makes itself.
// CHECK: module attributes {dt.crossing = ["sliced", "sliced"],
// CHECK-LABEL: func.func @micro.forward.1(
// CHECK-SAME: [[A:%[^:]*]]: tensor<2x4xf32> {dt.port = #dt.port<received "h.0">}
// CHECK-NEXT: %[[WHOLE:.*]] = dt.all_gather [[A]] along 0
// CHECK-NEXT: %[[B:.*]] = dt.exp %[[WHOLE]]
// CHECK-NEXT: %[[PART:.*]] = dt.shard_slice %[[B]] along 0
// CHECK-NEXT: return [[A]], %[[PART]] : tensor<2x4xf32>, tensor<2x4xf32>
// CHECK-LABEL: func.func @micro.forward.2(
// CHECK-NEXT: %[[A:.*]] = dt.all_gather
// CHECK-NEXT: %[[B:.*]] = dt.all_gather
// CHECK-NEXT: dt.add %[[A]], %[[B]]

module attributes {dt.mesh = #dt.mesh<"pp" = 3, "tp" = 2>, dt.crossing = ["sliced", "sliced"]} {
func.func @micro(%w: tensor<4x4xf32> {dt.port = #dt.port<parameter "w", placed = <[{}, {}]>>},
                 %x: tensor<4x4xf32> {dt.port = #dt.port<input "x", placed = <[{}, {}]>>})
    -> (tensor<4x4xf32> {dt.port = #dt.port<share "y", partial>}) {
  %a = dt.mul %w, %x {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>} : tensor<4x4xf32> loc("h.0")
  %b = dt.exp %a {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[1]>} : tensor<4x4xf32> loc("h.1")
  %c = dt.add %a, %b {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[2]>} : tensor<4x4xf32> loc("h.2")
  return %c : tensor<4x4xf32>
}
}

// -----

// Each cut has its own way.
// CHECK: module attributes {dt.crossing = ["sliced", "whole"],
// CHECK-LABEL: func.func @micro.forward.1(
// CHECK-NEXT: %[[WHOLE:.*]] = dt.all_gather
// CHECK-NEXT: %[[B:.*]] = dt.exp %[[WHOLE]]
// CHECK-NEXT: return %[[WHOLE]], %[[B]] : tensor<4x4xf32>, tensor<4x4xf32>
// CHECK-LABEL: func.func @micro.forward.2(
// CHECK-NEXT: dt.add

module attributes {dt.mesh = #dt.mesh<"pp" = 3, "tp" = 2>, dt.crossing = ["sliced", "whole"]} {
func.func @micro(%w: tensor<4x4xf32> {dt.port = #dt.port<parameter "w", placed = <[{}, {}]>>},
                 %x: tensor<4x4xf32> {dt.port = #dt.port<input "x", placed = <[{}, {}]>>})
    -> (tensor<4x4xf32> {dt.port = #dt.port<share "y", partial>}) {
  %a = dt.mul %w, %x {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>} : tensor<4x4xf32> loc("h.0")
  %b = dt.exp %a {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[1]>} : tensor<4x4xf32> loc("h.1")
  %c = dt.add %a, %b {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[2]>} : tensor<4x4xf32> loc("h.2")
  return %c : tensor<4x4xf32>
}
}

// -----

// Two stages of one rank: what crosses between them is copied, whole. The ranks of a V have stages 0 and 3, and 1 and 2.
// CHECK: module attributes {dt.crossing = ["sliced", "sliced", "sliced"],
// CHECK-LABEL: func.func @micro.forward.1(
// CHECK: return %{{.*}} : tensor<4x4xf32>
// CHECK-LABEL: func.func @micro.forward.2(
// CHECK-NOT: all_gather
// CHECK: dt.shard_slice
// CHECK-LABEL: func.func @micro.forward.3(
// CHECK-NEXT: dt.all_gather

module attributes {dt.mesh = #dt.mesh<"pp" = 2, "tp" = 2>, dt.crossing = ["sliced", "sliced", "sliced"], dt.stage_ranks = array<i64: 0, 1, 1, 0>} {
func.func @micro(%w: tensor<4x4xf32> {dt.port = #dt.port<parameter "w", placed = <[{}, {}]>>},
                 %x: tensor<4x4xf32> {dt.port = #dt.port<input "x", placed = <[{}, {}]>>})
    -> (tensor<4x4xf32> {dt.port = #dt.port<share "y", partial>}) {
  %a = dt.mul %w, %x {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>} : tensor<4x4xf32> loc("h.0")
  %b = dt.exp %a {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[1]>} : tensor<4x4xf32> loc("h.1")
  %c = dt.exp %b {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[2]>} : tensor<4x4xf32> loc("h.2")
  %d = dt.exp %c {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[3]>} : tensor<4x4xf32> loc("h.3")
  return %d : tensor<4x4xf32>
}
}

// -----

// What an argument splits over tp, ranks do not have in common; a sum over tp they have. Over dp each rank has its own, so
// the parts are those of tp alone.
// CHECK: module attributes {dt.crossing = ["sliced"],
// CHECK-LABEL: func.func @micro.forward.0(
// CHECK-SAME: -> (tensor<4x4xf32> {dt.port = #dt.port<sent "h.0">}, tensor<2x4xf32> {dt.port = #dt.port<sent "h.0#1">})
// CHECK-NEXT: %[[A:.*]] = dt.mul
// CHECK-NEXT: %[[S:.*]] = dt.all_reduce sum %[[A]]
// CHECK-NEXT: %[[PART:.*]] = dt.shard_slice %[[S]] along 0 over [#dt.axis_ref<"tp", 1, 0>]
// CHECK-NEXT: return %[[A]], %[[PART]]

module attributes {dt.mesh = #dt.mesh<"dp" = 2, "pp" = 2, "tp" = 2>, dt.crossing = ["sliced"]} {
func.func @micro(%w: tensor<4x4xf32> {dt.port = #dt.port<parameter "w", placed = <[{}, {"tp"}]>>},
                 %x: tensor<4x4xf32> {dt.port = #dt.port<input "x", placed = <[{"dp"}, {}]>>})
    -> (tensor<4x4xf32> {dt.port = #dt.port<share "y", partial>}) {
  %a = dt.mul %w, %x {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>} : tensor<4x4xf32> loc("h.0")
  %s = dt.all_reduce sum %a over [#dt.axis_ref<"tp", 1, 0>] {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>} : tensor<4x4xf32> -> tensor<4x4xf32> loc("h.0")
  %c = dt.add %a, %s {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[1]>} : tensor<4x4xf32> loc("h.1")
  return %c : tensor<4x4xf32>
}
}

// -----

// A sum over a part of an axis, or by some of its ranks, is not common to all of them; numbers that depend on the rank
// are not either.
// CHECK-LABEL: func.func @micro.forward.0(
// CHECK-NOT: shard_slice
// CHECK: return

module attributes {dt.mesh = #dt.mesh<"pp" = 2, "tp" = 4>, dt.crossing = ["sliced"]} {
func.func @micro(%w: tensor<4x4xf32> {dt.port = #dt.port<parameter "w", placed = <[{}, {"tp"}]>>},
                 %v: tensor<4x4xf32> {dt.port = #dt.port<parameter "v", placed = <[{}, {}]>>},
                 %x: tensor<4x4xf32> {dt.port = #dt.port<input "x", placed = <[{}, {}]>>})
    -> (tensor<4x4xf32> {dt.port = #dt.port<share "y", partial>}) {
  %n = dt.iota 0 sharded <[{"tp"}, {}]> : tensor<4x4xi32>
  %i = dt.convert %n : tensor<4x4xi32> -> tensor<4x4xf32>
  %e = dt.mul %v, %x {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>} : tensor<4x4xf32> loc("h.0")
  %f = dt.mul %e, %i {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>} : tensor<4x4xf32> loc("h.0")
  %a = dt.mul %w, %f {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>} : tensor<4x4xf32> loc("h.0")
  %s = dt.all_reduce sum %a over [#dt.axis_ref<"tp", 1, 2>] {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>} : tensor<4x4xf32> -> tensor<4x4xf32> loc("h.0")
  %m = dt.all_reduce sum %a over [#dt.axis_ref<"tp", 1, 0>] members [0, 2] {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>} : tensor<4x4xf32> -> tensor<4x4xf32> loc("h.0")
  %b = dt.add %s, %m {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[1]>} : tensor<4x4xf32> loc("h.1")
  %c = dt.add %b, %f {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[1]>} : tensor<4x4xf32> loc("h.1")
  return %c : tensor<4x4xf32>
}
}

// -----

// Where no dimension divides over both axes, parts are those of the inner one. Without costs and without a choice all is
// whole, and the module says so.
// CHECK: module attributes {dt.crossing = ["sliced"],
// CHECK-LABEL: func.func @micro.forward.0(
// CHECK: dt.shard_slice %{{.*}} along 1 over [#dt.axis_ref<"tp", 1, 0>] {{.*}} : tensor<3x2xf32> -> tensor<3x1xf32>
// CHECK: module attributes {dt.crossing = ["whole"],
// CHECK-LABEL: func.func @micro.forward.0(
// CHECK-NOT: shard_slice
// CHECK: return

module attributes {dt.mesh = #dt.mesh<"cp" = 2, "pp" = 2, "tp" = 2>, dt.crossing = ["sliced"]} {
func.func @micro(%w: tensor<3x2xf32> {dt.port = #dt.port<parameter "w", placed = <[{}, {}]>>},
                 %x: tensor<3x2xf32> {dt.port = #dt.port<input "x", placed = <[{}, {}]>>})
    -> (tensor<3x2xf32> {dt.port = #dt.port<share "y", partial>}) {
  %a = dt.mul %w, %x {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>} : tensor<3x2xf32> loc("h.0")
  %b = dt.exp %a {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[1]>} : tensor<3x2xf32> loc("h.1")
  return %b : tensor<3x2xf32>
}
}

// -----

module attributes {dt.mesh = #dt.mesh<"pp" = 2, "tp" = 2>} {
func.func @micro(%w: tensor<3x2xf32> {dt.port = #dt.port<parameter "w", placed = <[{}, {}]>>},
                 %x: tensor<3x2xf32> {dt.port = #dt.port<input "x", placed = <[{}, {}]>>})
    -> (tensor<3x2xf32> {dt.port = #dt.port<share "y", partial>}) {
  %a = dt.mul %w, %x {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>} : tensor<3x2xf32> loc("h.0")
  %b = dt.exp %a {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[1]>} : tensor<3x2xf32> loc("h.1")
  return %b : tensor<3x2xf32>
}
}

// -----

// What only a conversion to a narrower type reads crosses in that type; what others read too crosses as it is.
// CHECK-LABEL: func.func @micro.forward.0(
// CHECK-SAME: -> (tensor<4xbf16> {dt.port = #dt.port<sent "h.0">}, tensor<4xf32> {dt.port = #dt.port<sent "h.0#1">})
// CHECK-NEXT: %[[A:.*]] = dt.mul
// CHECK-NEXT: %[[B:.*]] = dt.mul
// CHECK-NEXT: %[[NARROW:.*]] = dt.convert %[[A]] {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>} : tensor<4xf32> -> tensor<4xbf16>
// CHECK-NEXT: return %[[NARROW]], %[[B]]
// CHECK-LABEL: func.func @micro.forward.1(
// CHECK-NEXT: dt.exp {{.*}} : tensor<4xbf16>
// CHECK-NEXT: dt.convert {{.*}} : tensor<4xf32> -> tensor<4xbf16>
// CHECK-NEXT: dt.mul

module attributes {dt.mesh = #dt.mesh<"pp" = 2>} {
func.func @micro(%w: tensor<4xf32> {dt.port = #dt.port<parameter "w">}, %v: tensor<4xf32> {dt.port = #dt.port<parameter "v">},
                 %x: tensor<4xf32> {dt.port = #dt.port<input "x">})
    -> (tensor<4xf32> {dt.port = #dt.port<share "y", partial>}) {
  %a = dt.mul %w, %x {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>} : tensor<4xf32> loc("h.0")
  %b = dt.mul %v, %x {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>} : tensor<4xf32> loc("h.0")
  %c = dt.convert %a {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[1]>} : tensor<4xf32> -> tensor<4xbf16> loc("h.1")
  %e = dt.exp %c {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[1]>} : tensor<4xbf16> loc("h.1")
  %d = dt.convert %b {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[1]>} : tensor<4xf32> -> tensor<4xbf16> loc("h.1")
  %g = dt.mul %e, %d {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[1]>} : tensor<4xbf16> loc("h.1")
  %h = dt.convert %g {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[1]>} : tensor<4xbf16> -> tensor<4xf32> loc("h.1")
  %y = dt.add %h, %b {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[1]>} : tensor<4xf32> loc("h.1")
  return %y : tensor<4xf32>
}
}

// -----

// Where the backward pass is split, its first part does the conversion and hands on, also where only gradients of weights
// read it.
// CHECK-LABEL: func.func @micro_last.inputs.1(
// CHECK: %[[D0:.*]] = dt.contract
// CHECK-NEXT: %[[NARROW:.*]] = dt.convert %[[D0]] {dt.direction = #dt.direction<input_gradient>, dt.layer = #dt.layer<"h"[1]>} : tensor<8x8xf32> -> tensor<8x8xbf16>
// CHECK-NEXT: return %[[NARROW]]
// CHECK-LABEL: func.func @micro_last.weights.0(
// CHECK-SAME: tensor<8x8xbf16> {dt.port = #dt.port<received_gradient

module attributes {dt.mesh = #dt.mesh<"pp" = 2>, dt.splits_backward} {
func.func @micro_last(%w0: tensor<8x8xbf16> {dt.port = #dt.port<parameter "h.0.w">},
                      %w1: tensor<8x8xf32> {dt.port = #dt.port<parameter "h.1.w">},
                      %x: tensor<8x8xbf16> {dt.port = #dt.port<input "x">})
    -> (tensor<8x8xbf16> {dt.port = #dt.port<reduced_gradient "h.0.w">},
        tensor<8x8xf32> {dt.port = #dt.port<reduced_gradient "h.1.w">}) {
  %y0 = dt.contract "ab,bc->ac" %x, %w0 {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>} : tensor<8x8xbf16>, tensor<8x8xbf16> -> tensor<8x8xf32> loc("h.0")
  %y1 = dt.contract "ab,bc->ac" %y0, %w1 {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[1]>} : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32> loc("h.1")
  %d0 = dt.contract "ac,bc->ab" %y1, %w1 {dt.direction = #dt.direction<input_gradient>, dt.layer = #dt.layer<"h"[1]>} : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32> loc("h.1.d0")
  %g1 = dt.contract "ab,ac->bc" %y0, %y1 {dt.direction = #dt.direction<weight_gradient>, dt.layer = #dt.layer<"h"[1]>} : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %n = dt.convert %d0 {dt.direction = #dt.direction<weight_gradient>, dt.layer = #dt.layer<"h"[0]>} : tensor<8x8xf32> -> tensor<8x8xbf16>
  %g0 = dt.contract "ab,ac->bc" %x, %n {dt.direction = #dt.direction<weight_gradient>, dt.layer = #dt.layer<"h"[0]>} : tensor<8x8xbf16>, tensor<8x8xbf16> -> tensor<8x8xbf16>
  return %g0, %g1 : tensor<8x8xbf16>, tensor<8x8xf32>
}
}
