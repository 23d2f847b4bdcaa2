// RUN: dtc-opt %s --dt-keep-state | FileCheck %s

// What an update changes is copied before it, and back where it is undone. What is done for other timetables is left alone.
// CHECK: func.func @update.0(
// CHECK: func.func @update.0.keep(%[[W:.*]]: tensor<8xf32> {dt.port = #dt.port<parameter "w">}, %[[M:.*]]: tensor<8xf32> {dt.port = #dt.port<slot "exp_avg" of "w">}) -> (tensor<8xf32> {dt.port = #dt.port<kept "parameter w">}, tensor<8xf32> {dt.port = #dt.port<kept "slot exp_avg of w">}) attributes {dt.duty = #dt.duty<once, stage = 0, timetable = "step", for = none>}
// CHECK-DAG: dt.copy %[[W]]
// CHECK-DAG: dt.copy %[[M]]
// CHECK: func.func @update.0.restore(%[[K:.*]]: tensor<8xf32> {dt.port = #dt.port<kept "parameter w">}, {{.*}}) -> (tensor<8xf32> {dt.port = #dt.port<parameter "w">}, tensor<8xf32> {dt.port = #dt.port<slot "exp_avg" of "w">})
// CHECK: dt.copy %[[K]]
// CHECK-NOT: @refresh.0.keep

module attributes {dt.mesh = #dt.mesh<"pp" = 2>, dt.stages = [[#dt.layer<"h"[0]>], [#dt.layer<"h"[1]>]], dt.early_update} {
func.func @update.0(%w: tensor<8xf32> {dt.port = #dt.port<parameter "w">}, %m: tensor<8xf32> {dt.port = #dt.port<slot "exp_avg" of "w">},
                    %g: tensor<8xf32> {dt.port = #dt.port<reduced_gradient "w">})
    -> (tensor<8xf32> {dt.port = #dt.port<parameter "w">}, tensor<8xf32> {dt.port = #dt.port<slot "exp_avg" of "w">})
    attributes {dt.duty = #dt.duty<once, stage = 0, timetable = "step", for = none>} {
  %n = dt.add %w, %g : tensor<8xf32>
  %o = dt.add %m, %g : tensor<8xf32>
  return %n, %o : tensor<8xf32>, tensor<8xf32>
}
func.func @refresh.0(%w: tensor<8xf32> {dt.port = #dt.port<parameter "w">}) -> (tensor<8xf32> {dt.port = #dt.port<copy "w">})
    attributes {dt.duty = #dt.duty<once, stage = 0, timetable = "refresh", for = none>} {
  %c = dt.copy %w : tensor<8xf32>
  return %c : tensor<8xf32>
}
}
