// RUN: dtc-opt %s --dt-build-timetables=accumulation=3 | FileCheck %s --check-prefix=TURNS
// RUN: dtc-opt %s "--dt-build-timetables=accumulation=3 kind=gpipe" | FileCheck %s --check-prefix=GPIPE
// RUN: dtc-opt %s --dt-build-timetables=accumulation=1 2>%t | FileCheck %s --check-prefix=ONE
// RUN: FileCheck %s --check-prefix=IDLE < %t
// RUN: sh -c 'dtc-opt %s --dt-build-timetables=kind=fast; test $? = 1' 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// The first of two stages. Places: 2 stash, 3 stash of collectives, 4 sent, 7 received gradients. Each receive is begun one
// pass ahead, and when a third message would be under way, the first is waited for.
// TURNS: dt.timetables = [#dt.timetable<"step", rank = 0, [
// TURNS-SAME: <@forward, micro_batch = 0, places = [0, 0, 0, 0, 0]>, <@receive, micro_batch = 0, places = [0, 0, 0, 0, 0, 0, 0, 0]>,
// TURNS-SAME: <@forward, micro_batch = 1, places = [0, 0, 1, 1, 1]>, <@backward, micro_batch = 0, places = [0, 0, 0, 0, 0, 0, 0, 0]>,
// TURNS-SAME: <@receive, micro_batch = 1, places = [0, 0, 0, 0, 0, 0, 0, 0]>, <@sent, micro_batch = 0, places = [0, 0, 0, 0, 0]>,
// TURNS-SAME: <@forward, micro_batch = 2, places = [0, 0, 0, 0, 0]>, <@receive, micro_batch = 2, places = [0, 0, 0, 0, 0, 0, 0, 1]>,

// GPIPE: rank = 0, [
// GPIPE-SAME: <@forward, micro_batch = 0, places = [0, 0, 0, 0, 0]>, <@forward, micro_batch = 1, places = [0, 0, 1, 1, 1]>,
// GPIPE-SAME: <@receive, micro_batch = 0, places = [0, 0, 0, 0, 0, 0, 0, 0]>,
// GPIPE-SAME: <@sent, micro_batch = 0, places = [0, 0, 0, 0, 0]>, <@forward, micro_batch = 2, places = [0, 0, 2, 2, 0]>
// GPIPE-SAME: <@receive, micro_batch = 1
// GPIPE-SAME: <@backward, micro_batch = 0
// GPIPE-SAME: <@receive, micro_batch = 2
// GPIPE-SAME: <@backward, micro_batch = 1
// GPIPE-SAME: <@last, micro_batch = 2
// GPIPE-SAME: <@sent, micro_batch = 1{{.*}} <@sent, micro_batch = 2{{.*}} <@update>]>
// GPIPE-SAME: #dt.timetable<"evaluation", rank = 0, [<@eval, micro_batch = 0>]>

// A lone micro-batch is the last one.
// ONE: #dt.timetable<"step", rank = 0, [<@receive, micro_batch = 0, {{.*}}<@forward, micro_batch = 0, places = [0, 0, 0, 0, 0]>, <@last, micro_batch = 0
// ONE-SAME: <@update>]>

// IDLE: warning: a pipeline of 2 stages with 1 micro-batch a step: its stages stand idle for 50 % of the time or more; raise accumulation

// UNKNOWN: error: timetable: there is no 'fast'; there are naive, gpipe, 1f1b

module attributes {dt.mesh = #dt.mesh<"pp" = 2>, dt.stages = [[#dt.layer<"h"[0]>], [#dt.layer<"h"[1]>]]} {
func.func @forward(%x: tensor<8xf32> {dt.port = #dt.port<input "x">})
    -> (tensor<8xf32> {dt.port = #dt.port<stash "s">}, tensor<8xf32> {dt.port = #dt.port<sent "h.0">})
    attributes {dt.duty = #dt.duty<forward, stage = 0, timetable = "step", for = first|middle|last>} {
  return %x, %x : tensor<8xf32>, tensor<8xf32>
}
func.func @sent(%y: tensor<8xf32> {dt.port = #dt.port<sent "h.0">})
    attributes {dt.duty = #dt.duty<transfer, stage = 0, timetable = "step", for = none>} {
  return
}
func.func @backward(%s: tensor<8xf32> {dt.port = #dt.port<stash "s">},
                    %d: tensor<8xf32> {dt.port = #dt.port<received_gradient "h.1">})
    -> (tensor<8xf32> {dt.port = #dt.port<gradient "w", partial>})
    attributes {dt.duty = #dt.duty<backward, stage = 0, timetable = "step", for = first|middle>} {
  return %s : tensor<8xf32>
}
func.func @last(%s: tensor<8xf32> {dt.port = #dt.port<stash "s">},
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
func.func @update(%w: tensor<8xf32> {dt.port = #dt.port<parameter "w">})
    attributes {dt.duty = #dt.duty<once, stage = 0, timetable = "step", for = none>} {
  return
}
func.func @eval(%w: tensor<8xf32> {dt.port = #dt.port<parameter "w">})
    attributes {dt.duty = #dt.duty<forward, stage = 0, timetable = "evaluation", for = none>} {
  return
}
}
