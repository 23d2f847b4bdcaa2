// RUN: dtc-opt %s --dt-insert-transfers | FileCheck %s

// What a pass sends leaves as soon as it is there; what it receives is waited for where it is first read. The backward
// pass reads what the forward pass has received without waiting again. Passes of equal ports share their transfers.

// CHECK: func.func @forward.1(%[[X:.*]]: tensor<8xf32> {dt.port = #dt.port<received "h.0">}, %[[P:.*]]: tensor<8xf32> {{.*}})
// CHECK-NEXT: %[[OTHER:.*]] = dt.exp %[[P]]
// CHECK-NEXT: %[[A:.*]] = dt.await %[[X]] of <received "h.0"> {dt.direction = #dt.direction<forward>}
// CHECK-NEXT: %[[Y:.*]] = dt.mul %[[A]], %[[OTHER]]
// CHECK-NEXT: dt.send %[[Y]] as <sent "h.1"> by 1 over [#dt.axis_ref<"pp", 1, 0>] {dt.direction = #dt.direction<forward>}
// CHECK-NEXT: %[[LATE:.*]] = dt.exp %[[Y]]
// CHECK-NEXT: return %[[Y]], %[[LATE]]

// CHECK: func.func @forward.1.sent(%[[Y:.*]]: tensor<8xf32> {dt.port = #dt.port<sent "h.1">}) attributes {dt.duty = #dt.duty<transfer, stage = 1, timetable = "step", for = none>}
// CHECK-NEXT: dt.await %[[Y]] of <sent "h.1">
// CHECK-NEXT: return
// CHECK: func.func @forward.1.receive() -> (tensor<8xf32> {dt.port = #dt.port<received "h.0">}) attributes {dt.duty = #dt.duty<transfer
// CHECK-NEXT: %[[X:.*]] = dt.recv <received "h.0"> by -1 over [#dt.axis_ref<"pp", 1, 0>] {dt.direction = #dt.direction<forward>}
// CHECK-NEXT: return %[[X]]

// CHECK: func.func @again.1(
// CHECK-NOT: @again.1.

// CHECK: func.func @backward.1(%[[X:.*]]: tensor<8xf32> {dt.port = #dt.port<received "h.0">}, %[[D:.*]]: tensor<8xf32> {dt.port = #dt.port<received_gradient "h.2">})
// CHECK-NEXT: %[[E:.*]] = dt.exp %[[X]]
// CHECK-NEXT: %[[A:.*]] = dt.await %[[D]] of <received_gradient "h.2">
// CHECK-NEXT: %[[B:.*]] = dt.mul %[[A]], %[[E]]
// CHECK-NEXT: dt.send %[[B]] as <sent_gradient "h.1"> by -1
// CHECK: func.func @backward.1.sent(
// CHECK: func.func @backward.1.receive(
// CHECK-NEXT: dt.recv <received_gradient "h.2"> by 1

// Two stages of one rank: what the one sends is copied to where the other finds what it receives. Nothing is awaited.

// CHECK: func.func @local.3(%[[X:.*]]: tensor<8xf32> {dt.port = #dt.port<received "a">})
// CHECK-NEXT: dt.exp %[[X]]
// CHECK-NEXT: return
// CHECK: func.func @local.3.copy(%[[X:.*]]: tensor<8xf32> {dt.port = #dt.port<sent "a">}) -> (tensor<8xf32> {dt.port = #dt.port<received "a">}) attributes {dt.duty = #dt.duty<transfer, stage = 3
// CHECK-NEXT: %[[Y:.*]] = dt.copy %[[X]]
// CHECK-NEXT: return %[[Y]]

module attributes {dt.mesh = #dt.mesh<"pp" = 3>, dt.stage_ranks = array<i64: 0, 1, 2, 2>} {
func.func @forward.1(%x: tensor<8xf32> {dt.port = #dt.port<received "h.0">},
                     %p: tensor<8xf32> {dt.port = #dt.port<parameter "w">})
    -> (tensor<8xf32> {dt.port = #dt.port<sent "h.1">}, tensor<8xf32> {dt.port = #dt.port<stash "e">})
    attributes {dt.duty = #dt.duty<forward, stage = 1, timetable = "step", for = first>} {
  %other = dt.exp %p {dt.direction = #dt.direction<forward>} : tensor<8xf32>
  %y = dt.mul %x, %other {dt.direction = #dt.direction<forward>} : tensor<8xf32>
  %late = dt.exp %y {dt.direction = #dt.direction<forward>} : tensor<8xf32>
  return %y, %late : tensor<8xf32>, tensor<8xf32>
}
func.func @again.1(%x: tensor<8xf32> {dt.port = #dt.port<received "h.0">}) -> (tensor<8xf32> {dt.port = #dt.port<sent "h.1">})
    attributes {dt.duty = #dt.duty<forward, stage = 1, timetable = "step", for = last>} {
  %y = dt.exp %x {dt.direction = #dt.direction<forward>} : tensor<8xf32>
  return %y : tensor<8xf32>
}
func.func @backward.1(%x: tensor<8xf32> {dt.port = #dt.port<received "h.0">},
                      %d: tensor<8xf32> {dt.port = #dt.port<received_gradient "h.2">})
    -> (tensor<8xf32> {dt.port = #dt.port<sent_gradient "h.1">})
    attributes {dt.duty = #dt.duty<backward, stage = 1, timetable = "step", for = last>} {
  %e = dt.exp %x {dt.direction = #dt.direction<input_gradient>} : tensor<8xf32>
  %b = dt.mul %d, %e {dt.direction = #dt.direction<input_gradient>} : tensor<8xf32>
  return %b : tensor<8xf32>
}
func.func @local.3(%x: tensor<8xf32> {dt.port = #dt.port<received "a">}) -> (tensor<8xf32> {dt.port = #dt.port<stash "e">})
    attributes {dt.duty = #dt.duty<forward, stage = 3, timetable = "step", for = last>} {
  %e = dt.exp %x {dt.direction = #dt.direction<forward>} : tensor<8xf32>
  return %e : tensor<8xf32>
}
}
