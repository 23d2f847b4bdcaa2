// RUN: dtc-opt %s --dt-gather-ahead=ahead=1 | FileCheck %s --check-prefixes=CHECK,ONE
// RUN: dtc-opt %s --dt-gather-ahead=ahead=0 | FileCheck %s --check-prefixes=CHECK,NONE
// A limit that nothing reaches.
// RUN: dtc-opt %s --dt-gather-ahead=ahead=9223372036854775807 | FileCheck %s --check-prefixes=CHECK,ALL

module attributes {dt.mesh = #dt.mesh<"dp" = 2, "tp" = 2>} {

// Three readers take turns. What computes what is gathered goes along; what a reader's own turn is about stays.
// CHECK-LABEL: @starts_before_the_reader_whose_turn_is_one_earlier
func.func @starts_before_the_reader_whose_turn_is_one_earlier(
    %a: tensor<4xf32> {dt.port = #dt.port<parameter "a">}, %b: tensor<4xf32> {dt.port = #dt.port<parameter "b">},
    %c: tensor<4xf32> {dt.port = #dt.port<parameter "c">}, %x: tensor<8xf32>) -> tensor<8xf32> {
  // ONE: %[[A:.*]] = dt.all_gather %arg0
  // ONE-NEXT: %[[B:.*]] = dt.all_gather %arg1
  // ONE-NEXT: dt.add %arg3, %[[A]]
  // ONE-NEXT: %[[N:.*]] = dt.neg %arg2
  // ONE-NEXT: %[[C:.*]] = dt.all_gather %[[N]]
  // ONE-NEXT: dt.add %{{.*}}, %[[B]]
  // ONE-NEXT: dt.exp
  // ONE-NEXT: %[[VIEW:.*]] = dt.reshape %[[C]]
  // NONE: dt.all_gather %arg0
  // NONE-NEXT: dt.add
  // NONE-NEXT: dt.all_gather %arg1
  // NONE-NEXT: dt.add
  // NONE-NEXT: dt.exp
  // NONE-NEXT: dt.neg %arg2
  // NONE-NEXT: dt.all_gather
  // NONE-NEXT: dt.reshape
  // ALL: dt.all_gather %arg0
  // ALL-NEXT: dt.all_gather %arg1
  // ALL-NEXT: dt.neg %arg2
  // ALL-NEXT: dt.all_gather
  // ALL-NEXT: dt.add
  %ga = dt.all_gather %a along 0 over [#dt.axis_ref<"dp", 1, 0>] : tensor<4xf32> -> tensor<8xf32>
  %y = dt.add %x, %ga : tensor<8xf32>
  %gb = dt.all_gather %b along 0 over [#dt.axis_ref<"dp", 1, 0>] : tensor<4xf32> -> tensor<8xf32>
  %z = dt.add %y, %gb : tensor<8xf32>
  %e = dt.exp %z : tensor<8xf32>
  %n = dt.neg %c : tensor<4xf32>
  %gc = dt.all_gather %n along 0 over [#dt.axis_ref<"dp", 1, 0>] : tensor<4xf32> -> tensor<8xf32>
  %view = dt.reshape %gc : tensor<8xf32> -> tensor<2x4xf32>
  %v = dt.reshape %e : tensor<8xf32> -> tensor<2x4xf32>
  %w = dt.add %v, %view : tensor<2x4xf32>
  %r = dt.reshape %w : tensor<2x4xf32> -> tensor<8xf32>
  return %r : tensor<8xf32>
}

// Which readers share a gather was decided before: two of one tensor stay two, and one with distant readers stays one. It
// starts for the first of them.
// CHECK-LABEL: @keeps_the_gathers_that_there_are
func.func @keeps_the_gathers_that_there_are(
    %a: tensor<4xf32> {dt.port = #dt.port<parameter "a">}, %b: tensor<4xf32> {dt.port = #dt.port<parameter "b">}, %x: tensor<8xf32>) -> tensor<8xf32> {
  // ONE: %[[A:.*]] = dt.all_gather %arg0
  // ONE-NEXT: %[[B:.*]] = dt.all_gather %arg1
  // ONE-NEXT: dt.add %arg2, %[[A]]
  // ONE-NEXT: %[[C:.*]] = dt.all_gather %arg1
  // ONE-NEXT: dt.mul %{{.*}}, %[[B]]
  // ONE-NEXT: dt.mul %{{.*}}, %[[C]]
  // ONE-NEXT: dt.add %{{.*}}, %[[A]]
  // NONE: dt.all_gather %arg0
  // NONE-NEXT: dt.add
  // NONE-NEXT: dt.all_gather %arg1
  // NONE-NEXT: dt.mul
  // NONE-NEXT: dt.all_gather %arg1
  // NONE-NEXT: dt.mul
  // ALL-COUNT-3: dt.all_gather
  // CHECK-NOT: dt.all_gather
  // CHECK: return
  %ga = dt.all_gather %a along 0 over [#dt.axis_ref<"dp", 1, 0>] : tensor<4xf32> -> tensor<8xf32>
  %p = dt.add %x, %ga : tensor<8xf32>
  %gb = dt.all_gather %b along 0 over [#dt.axis_ref<"dp", 1, 0>] : tensor<4xf32> -> tensor<8xf32>
  %q = dt.mul %p, %gb : tensor<8xf32>
  %gc = dt.all_gather %b along 0 over [#dt.axis_ref<"dp", 1, 0>] : tensor<4xf32> -> tensor<8xf32>
  %r = dt.mul %q, %gc : tensor<8xf32>
  %s = dt.add %r, %ga : tensor<8xf32>
  return %s : tensor<8xf32>
}

// Inputs are no parameters, and what is returned has no reader.
// CHECK-LABEL: @moves_only_parameters_that_are_read
func.func @moves_only_parameters_that_are_read(
    %a: tensor<4xf32> {dt.port = #dt.port<parameter "a">}, %i: tensor<4xf32> {dt.port = #dt.port<input "i">}, %x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  // CHECK: dt.exp
  // CHECK-NEXT: dt.all_gather %arg1
  // CHECK-NEXT: dt.add
  // CHECK-NEXT: dt.all_gather %arg0
  %e = dt.exp %x : tensor<8xf32>
  %g = dt.all_gather %i along 0 over [#dt.axis_ref<"dp", 1, 0>] : tensor<4xf32> -> tensor<8xf32>
  %y = dt.add %e, %g : tensor<8xf32>
  %h = dt.all_gather %a along 0 over [#dt.axis_ref<"dp", 1, 0>] : tensor<4xf32> -> tensor<8xf32>
  return %y, %h : tensor<8xf32>, tensor<8xf32>
}

// What is gathered, sliced and gathered again, as a dimension of size 1 that two axes split, is one gather: its slice is
// no reader with a turn.
// CHECK-LABEL: @gathers_on_the_way_to_a_gather
func.func @gathers_on_the_way_to_a_gather(
    %a: tensor<1xf32> {dt.port = #dt.port<parameter "a">}, %b: tensor<1xf32> {dt.port = #dt.port<parameter "b">}, %x: tensor<2xf32>) -> tensor<2xf32> {
  // ONE: dt.all_gather %arg0
  // ONE: dt.all_gather %arg1
  // ONE: %[[S:.*]] = dt.shard_slice
  // ONE-NEXT: %[[H:.*]] = dt.all_gather %[[S]]
  // ONE-NEXT: dt.add
  // ONE-NEXT: dt.add %{{.*}}, %[[H]]
  // CHECK: return
  %f = dt.all_gather %a along 0 over [#dt.axis_ref<"tp", 1, 0>] : tensor<1xf32> -> tensor<2xf32>
  %y = dt.add %x, %f : tensor<2xf32>
  %g = dt.all_gather %b along 0 over [#dt.axis_ref<"tp", 1, 0>] : tensor<1xf32> -> tensor<2xf32>
  %s = dt.slice %g at [0] : tensor<2xf32> -> tensor<1xf32>
  %c = dt.shard_slice %s along 0 over [#dt.axis_ref<"dp", 1, 0>] : tensor<1xf32> -> tensor<1xf32>
  %h = dt.all_gather %c along 0 over [#dt.axis_ref<"dp", 1, 0>] : tensor<1xf32> -> tensor<2xf32>
  %z = dt.add %y, %h : tensor<2xf32>
  return %z : tensor<2xf32>
}

}
