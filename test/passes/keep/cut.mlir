// RUN: dtc-opt %s --split-input-file --dt-cut | FileCheck %s

// Each stage has a forward and a backward pass, and an update. What the next stage reads is sent, what the backward pass
// reads is kept, the gradient goes back; a value that a stage has received need not be kept by it once more.
// CHECK: dt.stages = {{\[\[}}#dt.layer<"h"[0]>], [#dt.layer<"h"[1]>]]

// CHECK: func.func @micro_last.forward.0(%[[X:.*]]: tensor<8xf32> {dt.port = #dt.port<input "x">}, %[[W0:.*]]: tensor<8xf32> {dt.port = #dt.port<parameter "h.0.w">}) -> (tensor<8xf32> {dt.port = #dt.port<sent "{{.*}}">}) attributes {dt.duty = #dt.duty<forward, stage = 0, timetable = "step", for = last>} {
// CHECK-NEXT: %[[Y0:.*]] = dt.mul %[[X]], %[[W0]]
// CHECK-NEXT: return %[[Y0]]

// CHECK: func.func @micro_last.forward.1(%[[Y0:.*]]: tensor<8xf32> {dt.port = #dt.port<received "[[CROSSING:.*]]">}, %[[W1:.*]]: tensor<8xf32> {dt.port = #dt.port<parameter "h.1.w">}) -> (tensor<8xf32> {dt.port = #dt.port<stash "{{.*}}">}) attributes {dt.duty = #dt.duty<forward, stage = 1
// CHECK-NEXT: %[[Y1:.*]] = dt.mul %[[Y0]], %[[W1]]
// CHECK-NEXT: %[[E:.*]] = dt.exp %[[Y1]]
// CHECK-NEXT: return %[[E]]

// CHECK: func.func @micro_last.backward.1(%[[E:.*]]: tensor<8xf32> {dt.port = #dt.port<stash "{{.*}}">}, %[[Y0:.*]]: tensor<8xf32> {dt.port = #dt.port<received "[[CROSSING]]">}, %[[W1:.*]]: tensor<8xf32> {{.*}}) -> (tensor<8xf32> {dt.port = #dt.port<sent_gradient "[[BACK:.*]]">}, tensor<8xf32> {dt.port = #dt.port<reduced_gradient "h.1.w">}) attributes {dt.duty = #dt.duty<backward, stage = 1
// CHECK-NEXT: %[[G1:.*]] = dt.mul %[[E]], %[[Y0]]
// CHECK-NEXT: %[[D0:.*]] = dt.mul %[[E]], %[[W1]]
// CHECK-NEXT: return %[[D0]], %[[G1]]

// The host's inputs are read again.
// CHECK: func.func @micro_last.backward.0(%[[D0:.*]]: tensor<8xf32> {dt.port = #dt.port<received_gradient "[[BACK]]">}, %[[X:.*]]: tensor<8xf32> {dt.port = #dt.port<input "x">}) -> (tensor<8xf32> {dt.port = #dt.port<reduced_gradient "h.0.w">})
// CHECK-NEXT: %[[G0:.*]] = dt.mul %[[D0]], %[[X]]
// CHECK-NEXT: return %[[G0]]

// CHECK: func.func @update.0(%[[W:.*]]: tensor<8xf32> {dt.port = #dt.port<parameter "h.0.w">}, %[[G:.*]]: tensor<8xf32> {dt.port = #dt.port<reduced_gradient "h.0.w">}) -> (tensor<8xf32> {dt.port = #dt.port<parameter "h.0.w">}) attributes {dt.duty = #dt.duty<once, stage = 0, timetable = "step", for = none>}
// CHECK: func.func @update.1({{.*}}"h.1.w"{{.*}}"h.1.w"
// CHECK-NOT: func.func @update(

module attributes {dt.mesh = #dt.mesh<"pp" = 2>} {
func.func @micro_last(%w0: tensor<8xf32> {dt.port = #dt.port<parameter "h.0.w">},
                      %w1: tensor<8xf32> {dt.port = #dt.port<parameter "h.1.w">},
                      %x: tensor<8xf32> {dt.port = #dt.port<input "x">})
    -> (tensor<8xf32> {dt.port = #dt.port<reduced_gradient "h.0.w">},
        tensor<8xf32> {dt.port = #dt.port<reduced_gradient "h.1.w">}) {
  %y0 = dt.mul %x, %w0 {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>} : tensor<8xf32> loc("h.0")
  %y1 = dt.mul %y0, %w1 {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[1]>} : tensor<8xf32> loc("h.1")
  %e = dt.exp %y1 {dt.direction = #dt.direction<forward>} : tensor<8xf32> loc("head")
  %g1 = dt.mul %e, %y0 {dt.direction = #dt.direction<weight_gradient>, dt.layer = #dt.layer<"h"[1]>} : tensor<8xf32>
  %d0 = dt.mul %e, %w1 {dt.direction = #dt.direction<input_gradient>, dt.layer = #dt.layer<"h"[1]>} : tensor<8xf32> loc("h.1")
  %g0 = dt.mul %d0, %x {dt.direction = #dt.direction<weight_gradient>, dt.layer = #dt.layer<"h"[0]>} : tensor<8xf32>
  return %g0, %g1 : tensor<8xf32>, tensor<8xf32>
}
func.func @update(%w0: tensor<8xf32> {dt.port = #dt.port<parameter "h.0.w">},
                  %w1: tensor<8xf32> {dt.port = #dt.port<parameter "h.1.w">},
                  %g0: tensor<8xf32> {dt.port = #dt.port<reduced_gradient "h.0.w">},
                  %g1: tensor<8xf32> {dt.port = #dt.port<reduced_gradient "h.1.w">})
    -> (tensor<8xf32> {dt.port = #dt.port<parameter "h.0.w">}, tensor<8xf32> {dt.port = #dt.port<parameter "h.1.w">}) {
  %n0 = dt.sub %w0, %g0 {dt.direction = #dt.direction<update>} : tensor<8xf32>
  %n1 = dt.sub %w1, %g1 {dt.direction = #dt.direction<update>} : tensor<8xf32>
  return %n0, %n1 : tensor<8xf32>, tensor<8xf32>
}
}

// -----

// A parameter that two stages read: each has its summand of the gradient, which is added up over both before it is
// squared. A number that all gradients make is added up over all stages, and known to all. Ranks do this behind all
// passes.

// CHECK-LABEL: func.func @micro_last.backward.2
// CHECK: %[[G:.*]] = dt.mul %{{.*}}, %{{.*}} {dt.direction = #dt.direction<weight_gradient>}
// CHECK-NEXT: dt.mul
// CHECK-NEXT: dt.mul
// CHECK-NEXT: return
// CHECK: func.func @micro_last.exchange.2(%[[OWN:.*]]: tensor<8xf32> {dt.port = #dt.port<reduced_gradient "tied">})
// CHECK-SAME: attributes {dt.duty = #dt.duty<exchange, stage = 2, timetable = "step", for = none>}
// CHECK-NEXT: %[[SUM:.*]] = dt.all_reduce sum %[[OWN]] over [#dt.axis_ref<"pp", 1, 0>] members [0, 2] {dt.direction = #dt.direction<update>, reason = "partial over stages 0, 2 of the pipeline"}
// The first of the two stages counts the square; this one makes none and adds nothing.
// CHECK-NEXT: %[[NONE:.*]] = dt.constant dense<0.000000e+00> : tensor<16xf32>
// CHECK-NEXT: %[[ALL:.*]] = dt.all_reduce sum %[[NONE]] over [#dt.axis_ref<"pp", 1, 0>] {dt.direction = #dt.direction<update>, reason = "partial over stages 0, 1, 2 of the pipeline"}
// CHECK-NEXT: return %[[SUM]], %[[ALL]]

module attributes {dt.mesh = #dt.mesh<"pp" = 3>} {
func.func @micro_last(%w: tensor<8xf32> {dt.port = #dt.port<parameter "tied">},
                      %w1: tensor<8xf32> {dt.port = #dt.port<parameter "h.1.w">},
                      %x: tensor<8xf32> {dt.port = #dt.port<input "x">})
    -> (tensor<8xf32> {dt.port = #dt.port<reduced_gradient "tied">},
        tensor<8xf32> {dt.port = #dt.port<reduced_gradient "h.1.w">},
        tensor<16xf32> {dt.port = #dt.port<output "squares">}) {
  %y = dt.mul %x, %w {dt.direction = #dt.direction<forward>} : tensor<8xf32> loc("embedding")
  %y0 = dt.exp %y {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>} : tensor<8xf32> loc("h.0")
  %y1 = dt.mul %y0, %w1 {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[1]>} : tensor<8xf32> loc("h.1")
  %y2 = dt.exp %y1 {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[2]>} : tensor<8xf32> loc("h.2")
  %z = dt.mul %y2, %w {dt.direction = #dt.direction<forward>} : tensor<8xf32> loc("head")
  %gw = dt.mul %z, %y2 {dt.direction = #dt.direction<weight_gradient>} : tensor<8xf32>
  %d2 = dt.mul %z, %w {dt.direction = #dt.direction<input_gradient>} : tensor<8xf32> loc("head")
  %d1 = dt.mul %d2, %y2 {dt.direction = #dt.direction<input_gradient>, dt.layer = #dt.layer<"h"[2]>} : tensor<8xf32> loc("h.2")
  %g1 = dt.mul %d1, %y0 {dt.direction = #dt.direction<weight_gradient>, dt.layer = #dt.layer<"h"[1]>} : tensor<8xf32>
  %d0 = dt.mul %d1, %w1 {dt.direction = #dt.direction<input_gradient>, dt.layer = #dt.layer<"h"[1]>} : tensor<8xf32> loc("h.1")
  %d = dt.mul %d0, %y0 {dt.direction = #dt.direction<input_gradient>, dt.layer = #dt.layer<"h"[0]>} : tensor<8xf32> loc("h.0")
  %ge = dt.mul %d, %x {dt.direction = #dt.direction<weight_gradient>} : tensor<8xf32>
  %g = dt.add %gw, %ge {dt.direction = #dt.direction<weight_gradient>} : tensor<8xf32>
  %s = dt.mul %g, %g {dt.direction = #dt.direction<update>} : tensor<8xf32>
  %s1 = dt.mul %g1, %g1 {dt.direction = #dt.direction<update>} : tensor<8xf32>
  %all = dt.concat %s, %s1 along 0 {dt.direction = #dt.direction<update>} : tensor<8xf32>, tensor<8xf32> -> tensor<16xf32>
  return %g, %g1, %all : tensor<8xf32>, tensor<8xf32>, tensor<16xf32>
}
}

// -----

// Without an axis pp nothing is cut; functions say their duties all the same.
// CHECK: func.func @micro(%{{.*}}) -> {{.*}} attributes {dt.duty = #dt.duty<both, stage = 0, timetable = "step", for = first>}
// CHECK: func.func @eval(%{{.*}}) -> {{.*}} attributes {dt.duty = #dt.duty<forward, stage = 0, timetable = "evaluation", for = none>}
module attributes {dt.mesh = #dt.mesh<"dp" = 2>} {
func.func @micro(%w: tensor<8xf32> {dt.port = #dt.port<parameter "w">}) -> (tensor<8xf32> {dt.port = #dt.port<gradient "w", partial>}) {
  %g = dt.exp %w {dt.direction = #dt.direction<weight_gradient>} : tensor<8xf32>
  return %g : tensor<8xf32>
}
func.func @eval(%w: tensor<8xf32> {dt.port = #dt.port<parameter "w">}) -> (tensor<8xf32> {dt.port = #dt.port<output "y">}) {
  %y = dt.exp %w {dt.direction = #dt.direction<forward>} : tensor<8xf32>
  return %y : tensor<8xf32>
}
}

// -----

// Outside the layers an operation of the forward pass goes to the last of the stages whose values it reads. Passes that are
// equal but for what they compute stay apart.

// CHECK: func.func @micro.forward.0(
// CHECK-SAME: "step", for = first>}
// CHECK-NEXT: dt.mul
// CHECK-NEXT: dt.exp
// CHECK: func.func @micro.forward.1(
// CHECK-SAME: "step", for = first|last>}
// CHECK-NEXT: %[[B:.*]] = dt.exp
// CHECK-NEXT: %[[BOTH:.*]] = dt.add %{{.*}}, %[[B]]
// CHECK-NEXT: return %[[BOTH]]
// CHECK: func.func @micro_last.forward.0(
// CHECK-SAME: "step", for = last>}
// CHECK-NEXT: dt.mul
// CHECK-NEXT: dt.log
// CHECK-NOT: @micro_last.forward.1

module attributes {dt.mesh = #dt.mesh<"pp" = 2>} {
func.func @micro(%w: tensor<8xf32> {dt.port = #dt.port<parameter "w">}, %x: tensor<8xf32> {dt.port = #dt.port<input "x">})
    -> (tensor<8xf32> {dt.port = #dt.port<share "y", partial>}) {
  %y = dt.mul %w, %x {dt.direction = #dt.direction<forward>} : tensor<8xf32>
  %a = dt.exp %y {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>} : tensor<8xf32> loc("h.0")
  %b = dt.exp %a {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[1]>} : tensor<8xf32> loc("h.1")
  %both = dt.add %a, %b {dt.direction = #dt.direction<forward>} : tensor<8xf32>
  return %both : tensor<8xf32>
}
func.func @micro_last(%w: tensor<8xf32> {dt.port = #dt.port<parameter "w">}, %x: tensor<8xf32> {dt.port = #dt.port<input "x">})
    -> (tensor<8xf32> {dt.port = #dt.port<share "y", partial>}) {
  %y = dt.mul %w, %x {dt.direction = #dt.direction<forward>} : tensor<8xf32>
  %a = dt.log %y {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>} : tensor<8xf32> loc("h.0")
  %b = dt.exp %a {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[1]>} : tensor<8xf32> loc("h.1")
  %both = dt.add %a, %b {dt.direction = #dt.direction<forward>} : tensor<8xf32>
  return %both : tensor<8xf32>
}
}

// -----

// What a kernel makes on the way of one stored tensor, as with its bias added, is made again there: the product is kept,
// and not the sum as well.

// CHECK-LABEL: func.func @micro_next.forward.0
// CHECK-SAME: -> (tensor<8x8xf32> {dt.port = #dt.port<sent "{{.*}}">}, tensor<8x8xf32> {dt.port = #dt.port<stash "[[PRODUCT:.*]]">}) attributes
// CHECK-LABEL: func.func @micro_next.backward.0
// CHECK-SAME: %[[Y:[a-z0-9]*]]: tensor<8x8xf32> {dt.port = #dt.port<stash "[[PRODUCT]]">}, %[[B:[a-z0-9]*]]: tensor<8xf32>
// CHECK: %[[WIDE:.*]] = dt.broadcast %[[B]]
// CHECK: %[[Z:.*]] = dt.add %[[Y]], %[[WIDE]] {dt.direction = #dt.direction<input_gradient>
// CHECK: dt.mul %{{.*}}, %[[Z]]
// CHECK: dt.mul %{{.*}}, %[[Y]]

module attributes {dt.mesh = #dt.mesh<"pp" = 2>} {
func.func @micro_next(%w: tensor<8x8xf32> {dt.port = #dt.port<parameter "h.0.w">},
                      %b: tensor<8xf32> {dt.port = #dt.port<parameter "h.0.b">},
                      %w1: tensor<8x8xf32> {dt.port = #dt.port<parameter "h.1.w">},
                      %x: tensor<8x8xf32> {dt.port = #dt.port<input "x">})
    -> (tensor<8x8xf32> {dt.port = #dt.port<reduced_gradient "h.0.w">},
        tensor<8x8xf32> {dt.port = #dt.port<reduced_gradient "h.0.b">},
        tensor<8x8xf32> {dt.port = #dt.port<reduced_gradient "h.1.w">}) {
  %y = dt.contract "ab,bc->ac" %x, %w {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>} : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32> loc("h.0")
  %wide = dt.broadcast %b dims [1] {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>} : tensor<8xf32> -> tensor<8x8xf32>
  %z = dt.add %y, %wide {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>} : tensor<8x8xf32> loc("h.0.b")
  %e = dt.exp %z {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>} : tensor<8x8xf32> loc("h.0.e")
  %y1 = dt.contract "ab,bc->ac" %e, %w1 {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[1]>} : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32> loc("h.1")
  %g1 = dt.mul %y1, %w1 {dt.direction = #dt.direction<weight_gradient>, dt.layer = #dt.layer<"h"[1]>} : tensor<8x8xf32>
  %d0 = dt.mul %y1, %w1 {dt.direction = #dt.direction<input_gradient>, dt.layer = #dt.layer<"h"[1]>} : tensor<8x8xf32> loc("h.1")
  %g0 = dt.mul %d0, %z {dt.direction = #dt.direction<weight_gradient>, dt.layer = #dt.layer<"h"[0]>} : tensor<8x8xf32>
  %gb = dt.mul %d0, %y {dt.direction = #dt.direction<weight_gradient>, dt.layer = #dt.layer<"h"[0]>} : tensor<8x8xf32>
  return %g0, %gb, %g1 : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
}
}

// -----

// Ranks with two stages each, as a V: the first rank has the first and the last stage, and so both summands of the tied
// parameter's gradient. It keeps them apart, adds them up behind all passes and asks nobody.

// CHECK: func.func @micro_last.backward.3(
// CHECK-SAME: tensor<8xf32> {dt.port = #dt.port<reduced_gradient "stage_3" of "tied">})
// CHECK: func.func @micro_last.backward.0(
// CHECK-SAME: -> (tensor<8xf32> {dt.port = #dt.port<reduced_gradient "tied">})
// CHECK: func.func @micro_last.exchange.0(%[[A:.*]]: tensor<8xf32> {dt.port = #dt.port<reduced_gradient "tied">}, %[[B:.*]]: tensor<8xf32> {dt.port = #dt.port<reduced_gradient "stage_3" of "tied">})
// CHECK-NEXT: %[[SUM:.*]] = dt.add %[[A]], %[[B]] {dt.direction = #dt.direction<update>}
// CHECK-NEXT: return %[[SUM]]
// CHECK: func.func @update.0(%{{.*}}: tensor<8xf32> {dt.port = #dt.port<parameter "tied">}, %{{.*}}: tensor<8xf32> {dt.port = #dt.port<reduced_gradient "tied">})
// CHECK-NOT: func.func @update.1

module attributes {dt.mesh = #dt.mesh<"pp" = 2>, dt.stage_ranks = array<i64: 0, 1, 1, 0>} {
func.func @micro_last(%w: tensor<8xf32> {dt.port = #dt.port<parameter "tied">}, %x: tensor<8xf32> {dt.port = #dt.port<input "x">})
    -> (tensor<8xf32> {dt.port = #dt.port<reduced_gradient "tied">}) {
  %y = dt.mul %x, %w {dt.direction = #dt.direction<forward>} : tensor<8xf32> loc("embedding")
  %y0 = dt.exp %y {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>} : tensor<8xf32> loc("h.0")
  %y1 = dt.exp %y0 {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[1]>} : tensor<8xf32> loc("h.1")
  %y2 = dt.exp %y1 {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[2]>} : tensor<8xf32> loc("h.2")
  %y3 = dt.exp %y2 {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[3]>} : tensor<8xf32> loc("h.3")
  %gw = dt.mul %y3, %y3 {dt.direction = #dt.direction<weight_gradient>} : tensor<8xf32>
  %d3 = dt.mul %y3, %w {dt.direction = #dt.direction<input_gradient>, dt.layer = #dt.layer<"h"[3]>} : tensor<8xf32> loc("h.3")
  %d2 = dt.mul %d3, %y2 {dt.direction = #dt.direction<input_gradient>, dt.layer = #dt.layer<"h"[2]>} : tensor<8xf32> loc("h.2")
  %d1 = dt.mul %d2, %y1 {dt.direction = #dt.direction<input_gradient>, dt.layer = #dt.layer<"h"[1]>} : tensor<8xf32> loc("h.1")
  %d0 = dt.mul %d1, %y0 {dt.direction = #dt.direction<input_gradient>, dt.layer = #dt.layer<"h"[0]>} : tensor<8xf32> loc("h.0")
  %ge = dt.mul %d0, %x {dt.direction = #dt.direction<weight_gradient>} : tensor<8xf32>
  %g = dt.add %gw, %ge {dt.direction = #dt.direction<weight_gradient>} : tensor<8xf32>
  return %g : tensor<8xf32>
}
func.func @update(%w: tensor<8xf32> {dt.port = #dt.port<parameter "tied">}, %g: tensor<8xf32> {dt.port = #dt.port<reduced_gradient "tied">})
    -> (tensor<8xf32> {dt.port = #dt.port<parameter "tied">}) {
  %n = dt.sub %w, %g {dt.direction = #dt.direction<update>} : tensor<8xf32>
  return %n : tensor<8xf32>
}
}

// -----

// A split backward pass: the previous stage waits for the first part alone. What the second part reads is kept for it,
// by the forward pass and by the first part. What the first part needs is computed there, whatever it is for.

// CHECK: func.func @micro_last.inputs.1(
// CHECK-SAME: -> (tensor<8xf32> {dt.port = #dt.port<gradient_stash "[[KEPT:[a-z]*]]">}, tensor<8xf32> {dt.port = #dt.port<sent_gradient "{{[^"]*}}">}) attributes {dt.duty = #dt.duty<input_gradients, stage = 1
// CHECK: %[[D:.*]] = dt.mul {{.*}} {dt.direction = #dt.direction<weight_gradient>
// CHECK: %[[D0:.*]] = dt.mul %[[D]], {{.*}} {dt.direction = #dt.direction<input_gradient>
// CHECK-NEXT: return %[[D]], %[[D0]]
// CHECK: func.func @micro_last.weights.1(%[[D:.*]]: tensor<8xf32> {dt.port = #dt.port<gradient_stash "[[KEPT]]">}, %[[Y0:.*]]: tensor<8xf32> {dt.port = #dt.port<received "{{[^"]*}}">})
// CHECK-SAME: -> (tensor<8xf32> {dt.port = #dt.port<reduced_gradient "h.1.w">}) attributes {dt.duty = #dt.duty<weight_gradients, stage = 1
// CHECK-NEXT: %[[G1:.*]] = dt.mul %[[D]], %[[Y0]]
// CHECK-NEXT: return %[[G1]]
// CHECK: func.func @micro_last.weights.0(%[[D0:.*]]: tensor<8xf32> {dt.port = #dt.port<received_gradient "{{.*}}">}, %{{.*}}: tensor<8xf32> {dt.port = #dt.port<input "x">})

module attributes {dt.mesh = #dt.mesh<"pp" = 2>, dt.splits_backward} {
func.func @micro_last(%w0: tensor<8xf32> {dt.port = #dt.port<parameter "h.0.w">},
                      %w1: tensor<8xf32> {dt.port = #dt.port<parameter "h.1.w">},
                      %x: tensor<8xf32> {dt.port = #dt.port<input "x">})
    -> (tensor<8xf32> {dt.port = #dt.port<reduced_gradient "h.0.w">},
        tensor<8xf32> {dt.port = #dt.port<reduced_gradient "h.1.w">}) {
  %y0 = dt.mul %x, %w0 {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>} : tensor<8xf32> loc("h.0")
  %y1 = dt.mul %y0, %w1 {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[1]>} : tensor<8xf32> loc("h.1")
  %e = dt.exp %y1 {dt.direction = #dt.direction<forward>} : tensor<8xf32> loc("head")
  %d = dt.mul %e, %y0 {dt.direction = #dt.direction<weight_gradient>, dt.layer = #dt.layer<"h"[1]>} : tensor<8xf32> loc("both")
  %g1 = dt.mul %d, %y0 {dt.direction = #dt.direction<weight_gradient>, dt.layer = #dt.layer<"h"[1]>} : tensor<8xf32>
  %d0 = dt.mul %d, %w1 {dt.direction = #dt.direction<input_gradient>, dt.layer = #dt.layer<"h"[1]>} : tensor<8xf32> loc("h.1")
  %g0 = dt.mul %d0, %x {dt.direction = #dt.direction<weight_gradient>, dt.layer = #dt.layer<"h"[0]>} : tensor<8xf32>
  return %g0, %g1 : tensor<8xf32>, tensor<8xf32>
}
}

// -----

// What a split backward pass reads of the forward pass has a kind for how long it stays: what the first part alone reads,
// and what the second one reads, too. What is made of small values alone, as a row's sum for each of its elements, is made
// again.

// CHECK-LABEL: func.func @micro_next.forward.1(
// CHECK-SAME: -> (tensor<8x8xf32> {dt.port = #dt.port<stash "[[Z:[^"]*]]">}, tensor<8x8xf32> {dt.port = #dt.port<weight_stash "[[Y1:[^"]*]]">}) attributes
// CHECK-LABEL: func.func @micro_next.inputs.1(
// CHECK-SAME: {dt.port = #dt.port<stash "[[Z]]">}
// CHECK-SAME: {dt.port = #dt.port<weight_stash "[[Y1]]">}
// CHECK-SAME: -> (tensor<8xf32> {dt.port = #dt.port<gradient_stash "[[SUMS:[^"]*]]">}, tensor<8x8xf32> {dt.port = #dt.port<sent_gradient "{{[^"]*}}">}) attributes
// CHECK-LABEL: func.func @micro_next.weights.1(
// CHECK-SAME: %[[Y:[a-z0-9]*]]: tensor<8x8xf32> {dt.port = #dt.port<weight_stash "[[Y1]]">}, %[[ROWS:[a-z0-9]*]]: tensor<8xf32> {dt.port = #dt.port<gradient_stash "[[SUMS]]">}
// CHECK: %[[WIDE:.*]] = dt.broadcast %[[ROWS]] dims [0] {dt.direction = #dt.direction<weight_gradient>
// CHECK: dt.mul %[[Y]], %[[WIDE]]

module attributes {dt.mesh = #dt.mesh<"pp" = 2>, dt.splits_backward} {
func.func @micro_next(%w0: tensor<8x8xf32> {dt.port = #dt.port<parameter "h.0.w">},
                      %w1: tensor<8x8xf32> {dt.port = #dt.port<parameter "h.1.w">},
                      %x: tensor<8x8xf32> {dt.port = #dt.port<input "x">})
    -> (tensor<8x8xf32> {dt.port = #dt.port<reduced_gradient "h.0.w">},
        tensor<8x8xf32> {dt.port = #dt.port<reduced_gradient "h.1.w">}) {
  %y0 = dt.contract "ab,bc->ac" %x, %w0 {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[0]>} : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32> loc("h.0")
  %y1 = dt.contract "ab,bc->ac" %y0, %w1 {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[1]>} : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32> loc("h.1")
  %z = dt.contract "ab,bc->ac" %y1, %w1 {dt.direction = #dt.direction<forward>, dt.layer = #dt.layer<"h"[1]>} : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32> loc("h.1.z")
  %sums = dt.reduce sum %z over [1] {dt.direction = #dt.direction<input_gradient>, dt.layer = #dt.layer<"h"[1]>} : tensor<8x8xf32> -> tensor<8xf32> loc("h.1.sums")
  %wide = dt.broadcast %sums dims [0] {dt.direction = #dt.direction<input_gradient>, dt.layer = #dt.layer<"h"[1]>} : tensor<8xf32> -> tensor<8x8xf32> loc("h.1.wide")
  %d = dt.mul %z, %y1 {dt.direction = #dt.direction<input_gradient>, dt.layer = #dt.layer<"h"[1]>} : tensor<8x8xf32> loc("h.1.d")
  %e = dt.mul %d, %wide {dt.direction = #dt.direction<input_gradient>, dt.layer = #dt.layer<"h"[1]>} : tensor<8x8xf32> loc("h.1.e")
  %d0 = dt.contract "ac,bc->ab" %e, %w1 {dt.direction = #dt.direction<input_gradient>, dt.layer = #dt.layer<"h"[1]>} : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32> loc("h.1.d0")
  %s = dt.mul %y1, %wide {dt.direction = #dt.direction<weight_gradient>, dt.layer = #dt.layer<"h"[1]>} : tensor<8x8xf32>
  %g1 = dt.contract "ab,ac->bc" %y0, %s {dt.direction = #dt.direction<weight_gradient>, dt.layer = #dt.layer<"h"[1]>} : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %g0 = dt.contract "ab,ac->bc" %x, %d0 {dt.direction = #dt.direction<weight_gradient>, dt.layer = #dt.layer<"h"[0]>} : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  return %g0, %g1 : tensor<8x8xf32>, tensor<8x8xf32>
}
}
