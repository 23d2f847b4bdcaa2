// RUN: dtc-opt %s --dt-build-timetables=kind=pipedream | FileCheck %s

// The first of two stages: its forward pass is one step ahead, so that two steps are under way at once. What belongs to one
// takes turns in two places of 2 stash, 3 stash of collectives and 4 sent; one of 7 received gradients is enough. The update
// follows the backward pass. At the end of the step what was sent of it is waited for, then ranks exchange.
// CHECK: dt.timetables = [#dt.timetable<"step", rank = 0, [<@receive, micro_batch = 0>,
// CHECK-SAME: <@forward, micro_batch = 0, step = 1, turns = [0, 0, 2, 2, 2]>, <@backward, micro_batch = 0, turns = [0, 0, 2, 2]>,
// CHECK-SAME: <@sent, micro_batch = 0, turns = [0, 0, 0, 0, 2]>, <@update>, <@exchange>]>

module attributes {dt.mesh = #dt.mesh<"pp" = 2>, dt.stages = [[#dt.layer<"h"[0]>], [#dt.layer<"h"[1]>]], dt.asynchronous} {
func.func @forward(%x: tensor<8xf32> {dt.port = #dt.port<input "x">})
    -> (tensor<8xf32> {dt.port = #dt.port<stash "s">}, tensor<8xf32> {dt.port = #dt.port<sent "h.0">})
    attributes {dt.duty = #dt.duty<forward, stage = 0, timetable = "step", for = last>} {
  return %x, %x : tensor<8xf32>, tensor<8xf32>
}
func.func @sent(%y: tensor<8xf32> {dt.port = #dt.port<sent "h.0">})
    attributes {dt.duty = #dt.duty<transfer, stage = 0, timetable = "step", for = none>} {
  return
}
func.func @backward(%s: tensor<8xf32> {dt.port = #dt.port<stash "s">},
                    %d: tensor<8xf32> {dt.port = #dt.port<received_gradient "h.1">})
    -> (tensor<8xf32> {dt.port = #dt.port<reduced_gradient "w">})
    attributes {dt.duty = #dt.duty<backward, stage = 0, timetable = "step", for = last>} {
  return %s : tensor<8xf32>
}
func.func @receive() -> (tensor<8xf32> {dt.port = #dt.port<received_gradient "h.1">})
    attributes {dt.duty = #dt.duty<transfer, stage = 0, timetable = "step", for = none>} {
  %d = dt.recv <received_gradient "h.1"> by 1 over [#dt.axis_ref<"pp", 1, 0>] : tensor<8xf32>
  return %d : tensor<8xf32>
}
func.func @exchange() attributes {dt.duty = #dt.duty<exchange, stage = 0, timetable = "step", for = none>} {
  return
}
func.func @update(%w: tensor<8xf32> {dt.port = #dt.port<parameter "w">})
    attributes {dt.duty = #dt.duty<once, stage = 0, timetable = "step", for = none>} {
  return
}
}
