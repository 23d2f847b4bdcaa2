// RUN: dtc-opt %s "--dt-build-timetables=accumulation=3 kind=zb-h1" | FileCheck %s

// The second of two stages, with backward passes in two. Places: 2 stash, 8 weight stash, 10 gradient stash, each with that of
// collectives behind it. The first is free after the input gradients, the others are after the weight gradients.
// CHECK: dt.timetables = [#dt.timetable<"step", rank = 1, [
// CHECK-SAME: <@forward, micro_batch = 0, places = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0]>, <@inputs, micro_batch = 0, places = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]>,
// CHECK-SAME: <@forward, micro_batch = 1, places = [0, 0, 0, 0, 0, 0, 0, 0, 1, 1]>, <@inputs, micro_batch = 1, places = [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1]>,
// CHECK-SAME: <@weights, micro_batch = 0, places = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]>,
// CHECK-SAME: <@forward, micro_batch = 2, places = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0]>, <@inputs, micro_batch = 2, places = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]>,
// CHECK-SAME: <@weights, micro_batch = 1, places = [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1]>, <@weights, micro_batch = 2, places = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]>]>

module attributes {dt.mesh = #dt.mesh<"pp" = 2>, dt.splits_backward, dt.stages = [[#dt.layer<"h"[0]>], [#dt.layer<"h"[1]>]]} {
func.func @forward(%x: tensor<8xf32> {dt.port = #dt.port<input "x">})
    -> (tensor<8xf32> {dt.port = #dt.port<stash "s">}, tensor<8xf32> {dt.port = #dt.port<weight_stash "v">})
    attributes {dt.duty = #dt.duty<forward, stage = 1, timetable = "step", for = first|middle|last>} {
  return %x, %x : tensor<8xf32>, tensor<8xf32>
}
func.func @inputs(%s: tensor<8xf32> {dt.port = #dt.port<stash "s">}, %v: tensor<8xf32> {dt.port = #dt.port<weight_stash "v">})
    -> (tensor<8xf32> {dt.port = #dt.port<gradient_stash "d">})
    attributes {dt.duty = #dt.duty<input_gradients, stage = 1, timetable = "step", for = first|middle|last>} {
  %d = dt.mul %s, %v : tensor<8xf32>
  return %d : tensor<8xf32>
}
func.func @weights(%v: tensor<8xf32> {dt.port = #dt.port<weight_stash "v">}, %d: tensor<8xf32> {dt.port = #dt.port<gradient_stash "d">})
    -> (tensor<8xf32> {dt.port = #dt.port<gradient "w", partial>})
    attributes {dt.duty = #dt.duty<weight_gradients, stage = 1, timetable = "step", for = first|middle|last>} {
  %g = dt.mul %v, %d : tensor<8xf32>
  return %g : tensor<8xf32>
}
}
