// RUN: dtc-opt %s "--dt-build-timetables=kind=zb-h2 accumulation=4 overlap-steps" | FileCheck %s
// RUN: not dtc-opt %s "--dt-build-timetables=kind=zb-h1 accumulation=4 overlap-steps" 2>&1 | FileCheck %s --check-prefix=TOGETHER

// The first of two ranks ends a step one pass before the last. So its first forward pass comes behind the update of the step
// before, and the ranks exchange behind that. What the pass has sent is under way then. A redo lets it arrive, goes back,
// updates, and sends it once more.
// CHECK: #dt.timetable<"step", rank = 0, [<@forward.0, micro_batch = 1, places = [0, 0, 0, 0, 1]>, <@inputs.0.receive, micro_batch = 0, places = [0, 0, 0, 0, 0, 0, 0, 0]>, <@forward.0.sent, micro_batch = 0, places = [0, 0, 0, 0, 0]>, <@forward.0, micro_batch = 2,
// CHECK-SAME: <@forward.0.sent, micro_batch = 3, places = [0, 0, 0, 0, 1]>, <@update.0.keep>, <@assume.0>, <@update.0>, <@forward.0, micro_batch = 0, step = 1, places = [0, 0, 0, 0, 0]>, <@exchange.0>]>
// CHECK-SAME: #dt.timetable<"redo", rank = 0, [<@forward.0.sent, micro_batch = 0, step = 1, places = [0, 0, 0, 0, 0]>, <@update.0.restore>, <@update.0>, <@forward.0, micro_batch = 0, step = 1, places = [0, 0, 0, 0, 0]>]>

// The last rank begins nothing early. In a redo it receives what is under way, and drops it.
// CHECK-SAME: #dt.timetable<"step", rank = 1, [<@forward.1.receive, micro_batch = 0, places = [0, 0, 0, 0, 0, 0]>, <@forward.1, micro_batch = 0, places = [0, 0, 0, 0, 0, 0]>,
// CHECK-SAME: <@update.1.keep>, <@assume.1>, <@update.1>, <@exchange.1>]>
// CHECK-SAME: #dt.timetable<"redo", rank = 1, [<@forward.1.receive, micro_batch = 0, step = 1, places = [0, 0, 0, 0, 0, 0]>, <@forward.1.drop, micro_batch = 0, step = 1, places = [0, 0, 0, 0, 0, 0]>, <@update.1.restore>, <@update.1>]>

// TOGETHER: overlap_steps: with this timetable and 4 micro-batches all ranks end a step at the same time, so that none could begin the next one earlier; take zb-h2 or zbv, with 3 micro-batches or more, or leave it out

module attributes {dt.mesh = #dt.mesh<"pp" = 2>, dt.stages = [[#dt.layer<"h"[0]>], [#dt.layer<"h"[1]>]], dt.splits_backward, dt.early_update} {
func.func @forward.0(%x: tensor<8xf32> {dt.port = #dt.port<input "x">}) -> (tensor<8xf32> {dt.port = #dt.port<sent "a">})
    attributes {dt.duty = #dt.duty<forward, stage = 0, timetable = "step", for = first|middle|last>} {
  return %x : tensor<8xf32>
}
func.func @forward.0.sent(%y: tensor<8xf32> {dt.port = #dt.port<sent "a">})
    attributes {dt.duty = #dt.duty<transfer, stage = 0, timetable = "step", for = none>} {
  return
}
func.func @inputs.0(%d: tensor<8xf32> {dt.port = #dt.port<received_gradient "b">})
    attributes {dt.duty = #dt.duty<input_gradients, stage = 0, timetable = "step", for = first|middle|last>} {
  return
}
func.func @inputs.0.receive() -> (tensor<8xf32> {dt.port = #dt.port<received_gradient "b">})
    attributes {dt.duty = #dt.duty<transfer, stage = 0, timetable = "step", for = none>} {
  %d = dt.recv <received_gradient "b"> by 1 over [#dt.axis_ref<"pp", 1, 0>] : tensor<8xf32>
  return %d : tensor<8xf32>
}
func.func @weights.0() attributes {dt.duty = #dt.duty<weight_gradients, stage = 0, timetable = "step", for = first|middle|last>} {
  return
}
func.func @exchange.0() attributes {dt.duty = #dt.duty<exchange, stage = 0, timetable = "step", for = none>} {
  return
}
func.func @assume.0(%n: tensor<f32> {dt.port = #dt.port<share "step_token_count">}) -> (tensor<f32> {dt.port = #dt.port<output "token_count">})
    attributes {dt.duty = #dt.duty<once, stage = 0, timetable = "step", for = none>} {
  return %n : tensor<f32>
}
func.func @update.0(%w: tensor<8xf32> {dt.port = #dt.port<parameter "v">}) -> (tensor<8xf32> {dt.port = #dt.port<parameter "v">})
    attributes {dt.duty = #dt.duty<once, stage = 0, timetable = "step", for = none>} {
  return %w : tensor<8xf32>
}
func.func @update.0.keep(%w: tensor<8xf32> {dt.port = #dt.port<parameter "v">}) -> (tensor<8xf32> {dt.port = #dt.port<kept "parameter v">})
    attributes {dt.duty = #dt.duty<once, stage = 0, timetable = "step", for = none>} {
  return %w : tensor<8xf32>
}
func.func @update.0.restore(%w: tensor<8xf32> {dt.port = #dt.port<kept "parameter v">}) -> (tensor<8xf32> {dt.port = #dt.port<parameter "v">})
    attributes {dt.duty = #dt.duty<once, stage = 0, timetable = "step", for = none>} {
  return %w : tensor<8xf32>
}
func.func @forward.1(%x: tensor<8xf32> {dt.port = #dt.port<received "a">})
    attributes {dt.duty = #dt.duty<forward, stage = 1, timetable = "step", for = first|middle|last>} {
  return
}
func.func @forward.1.receive() -> (tensor<8xf32> {dt.port = #dt.port<received "a">})
    attributes {dt.duty = #dt.duty<transfer, stage = 1, timetable = "step", for = none>} {
  %x = dt.recv <received "a"> by -1 over [#dt.axis_ref<"pp", 1, 0>] : tensor<8xf32>
  return %x : tensor<8xf32>
}
func.func @forward.1.drop(%x: tensor<8xf32> {dt.port = #dt.port<received "a">})
    attributes {dt.duty = #dt.duty<transfer, stage = 1, timetable = "step", for = none>} {
  return
}
func.func @inputs.1(%x: tensor<8xf32> {dt.port = #dt.port<input "x">}) -> (tensor<8xf32> {dt.port = #dt.port<sent_gradient "b">})
    attributes {dt.duty = #dt.duty<input_gradients, stage = 1, timetable = "step", for = first|middle|last>} {
  return %x : tensor<8xf32>
}
func.func @inputs.1.sent(%d: tensor<8xf32> {dt.port = #dt.port<sent_gradient "b">})
    attributes {dt.duty = #dt.duty<transfer, stage = 1, timetable = "step", for = none>} {
  return
}
func.func @weights.1() attributes {dt.duty = #dt.duty<weight_gradients, stage = 1, timetable = "step", for = first|middle|last>} {
  return
}
func.func @exchange.1() attributes {dt.duty = #dt.duty<exchange, stage = 1, timetable = "step", for = none>} {
  return
}
func.func @assume.1(%n: tensor<f32> {dt.port = #dt.port<share "step_token_count">}) -> (tensor<f32> {dt.port = #dt.port<output "token_count">})
    attributes {dt.duty = #dt.duty<once, stage = 1, timetable = "step", for = none>} {
  return %n : tensor<f32>
}
func.func @update.1(%w: tensor<8xf32> {dt.port = #dt.port<parameter "w">}) -> (tensor<8xf32> {dt.port = #dt.port<parameter "w">})
    attributes {dt.duty = #dt.duty<once, stage = 1, timetable = "step", for = none>} {
  return %w : tensor<8xf32>
}
func.func @update.1.keep(%w: tensor<8xf32> {dt.port = #dt.port<parameter "w">}) -> (tensor<8xf32> {dt.port = #dt.port<kept "parameter w">})
    attributes {dt.duty = #dt.duty<once, stage = 1, timetable = "step", for = none>} {
  return %w : tensor<8xf32>
}
func.func @update.1.restore(%w: tensor<8xf32> {dt.port = #dt.port<kept "parameter w">}) -> (tensor<8xf32> {dt.port = #dt.port<parameter "w">})
    attributes {dt.duty = #dt.duty<once, stage = 1, timetable = "step", for = none>} {
  return %w : tensor<8xf32>
}
}
