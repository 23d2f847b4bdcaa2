// RUN: dtc-opt %s --dt-split-collectives | FileCheck %s
// What is split already stays as it is.
// RUN: dtc-opt %s --dt-split-collectives --dt-split-collectives | FileCheck %s
// A wait stands at the collective's place in the model.
// RUN: dtc-opt %s --dt-split-collectives --mlir-print-debuginfo --mlir-use-nameloc-as-prefix=false | FileCheck %s --check-prefix=PLACE

module attributes {dt.mesh = #dt.mesh<"dp" = 2>} {

// A collective runs beside what does not need its value.
// CHECK-LABEL: @waits_before_first_use
func.func @waits_before_first_use(%x: tensor<8xf32>, %y: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  // CHECK: %[[F:.*]] = dt.all_reduce sum %{{.*}} : tensor<8xf32> -> !dt.future<tensor<8xf32>>
  // CHECK-NEXT: %[[E:.*]] = dt.exp
  // CHECK-NEXT: %[[V:.*]] = dt.wait %[[F]]
  // CHECK-NEXT: dt.add %[[V]], %[[E]]
  %sum = dt.all_reduce sum %x over [#dt.axis_ref<"dp", 1, 0>] : tensor<8xf32> -> tensor<8xf32>
  %e = dt.exp %y : tensor<8xf32>
  %r = dt.add %sum, %e : tensor<8xf32>
  return %r, %e : tensor<8xf32>, tensor<8xf32>
}

// The reason and the remedy go with the collective; the wait comes before the first of several users.
// CHECK-LABEL: @keeps_what_explains_it
// PLACE-LABEL: @keeps_what_explains_it
func.func @keeps_what_explains_it(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  // CHECK: dt.all_reduce max %{{.*}} {dt.layer = #dt.layer<"h"[0]>, reason = "partial", remedy = "none"}
  // CHECK-NEXT: dt.exp %arg0
  // CHECK-NEXT: %[[V:.*]] = dt.wait
  // CHECK-NEXT: dt.exp %[[V]]
  // CHECK-NEXT: dt.add %[[V]]
  // PLACE: dt.wait {{.*}} loc([[LOC:#loc[0-9]*]])
  // PLACE: [[LOC]] = loc("h.0.attn")
  %max = dt.all_reduce max %x over [#dt.axis_ref<"dp", 1, 0>] {dt.layer = #dt.layer<"h"[0]>, reason = "partial", remedy = "none"} : tensor<8xf32> -> tensor<8xf32> loc("h.0.attn")
  %e = dt.exp %x : tensor<8xf32>
  %f = dt.exp %max : tensor<8xf32>
  %r = dt.add %max, %e : tensor<8xf32>
  return %r, %f : tensor<8xf32>, tensor<8xf32>
}

// A view stays before views of it, wherever their readers take them.
// CHECK-LABEL: @views_of_views
func.func @views_of_views(%x: tensor<2x4xf32>) -> tensor<4x4xf32> {
  // CHECK: %[[B:.*]] = dt.barrier %arg0
  // CHECK-NEXT: %[[S0:.*]] = dt.slice %[[B]] at [0, 0]
  // CHECK-NEXT: %[[R0:.*]] = dt.reshape %[[S0]]
  // CHECK-NEXT: %[[S1:.*]] = dt.slice %[[B]] at [1, 0]
  // CHECK-NEXT: %[[R1:.*]] = dt.reshape %[[S1]]
  // CHECK-NEXT: dt.contract "a,b->ab" %[[R0]], %[[R1]]
  %b = dt.barrier %x : tensor<2x4xf32>
  %s0 = dt.slice %b at [0, 0] : tensor<2x4xf32> -> tensor<1x4xf32>
  %r0 = dt.reshape %s0 : tensor<1x4xf32> -> tensor<4xf32>
  %s1 = dt.slice %b at [1, 0] : tensor<2x4xf32> -> tensor<1x4xf32>
  %r1 = dt.reshape %s1 : tensor<1x4xf32> -> tensor<4xf32>
  %p = dt.contract "a,b->ab" %r0, %r1 : tensor<4xf32>, tensor<4xf32> -> tensor<4x4xf32>
  return %p : tensor<4x4xf32>
}

// A value that is only returned is waited for at the end.
// CHECK-LABEL: @waits_before_return
func.func @waits_before_return(%x: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK: dt.all_reduce
  // CHECK-NEXT: %[[V:.*]] = dt.wait
  // CHECK-NEXT: return %[[V]]
  %sum = dt.all_reduce sum %x over [#dt.axis_ref<"dp", 1, 0>] : tensor<8xf32> -> tensor<8xf32>
  return %sum : tensor<8xf32>
}

// All together would keep 14 elements, and the largest keeps 8. The one of 2 elements and the one of 8 are too much; so are
// the one of 8 and the one of 2 that follows it.
// CHECK-LABEL: @waits_for_the_oldest_where_more_is_under_way_than_the_largest_needs
func.func @waits_for_the_oldest_where_more_is_under_way_than_the_largest_needs(%x: tensor<2xf32>, %y: tensor<8xf32>)
    -> (tensor<1xf32>, tensor<4xf32>, tensor<1xf32>, tensor<1xf32>) {
  // CHECK-NEXT: dt.exp
  // CHECK-NEXT: %[[A:.*]] = dt.reduce_scatter
  // CHECK-NEXT: dt.exp
  // CHECK-NEXT: %[[WA:.*]] = dt.wait %[[A]]
  // CHECK-NEXT: %[[B:.*]] = dt.reduce_scatter
  // CHECK-NEXT: dt.sqrt
  // CHECK-NEXT: %[[WB:.*]] = dt.wait %[[B]]
  // CHECK-NEXT: %[[C:.*]] = dt.reduce_scatter
  // CHECK-NEXT: dt.tanh
  // CHECK-NEXT: %[[D:.*]] = dt.reduce_scatter
  // CHECK-DAG: %[[WC:.*]] = dt.wait %[[C]]
  // CHECK-DAG: %[[WD:.*]] = dt.wait %[[D]]
  // CHECK-NEXT: return %[[WA]], %[[WB]], %[[WC]], %[[WD]]
  %u = dt.exp %x : tensor<2xf32>
  %a = dt.reduce_scatter sum %u along 0 over [#dt.axis_ref<"dp", 1, 0>] : tensor<2xf32> -> tensor<1xf32>
  %v = dt.exp %y : tensor<8xf32>
  %b = dt.reduce_scatter sum %v along 0 over [#dt.axis_ref<"dp", 1, 0>] : tensor<8xf32> -> tensor<4xf32>
  %w = dt.sqrt %x : tensor<2xf32>
  %c = dt.reduce_scatter sum %w along 0 over [#dt.axis_ref<"dp", 1, 0>] : tensor<2xf32> -> tensor<1xf32>
  %e = dt.tanh %x : tensor<2xf32>
  %d = dt.reduce_scatter sum %e along 0 over [#dt.axis_ref<"dp", 1, 0>] : tensor<2xf32> -> tensor<1xf32>
  return %a, %b, %c, %d : tensor<1xf32>, tensor<4xf32>, tensor<1xf32>, tensor<1xf32>
}

// Where the oldest is waited for because of a larger one, what reads its value alone or beside what the function was given
// follows the wait, through views; what reads more does not.
// CHECK-LABEL: @reads_behind_a_wait_that_is_not_put_off
func.func @reads_behind_a_wait_that_is_not_put_off(%x: tensor<4xf32>, %y: tensor<8xf32>, %z: tensor<2xf32>)
    -> (tensor<2xbf16>, tensor<1x2xf32>, tensor<2xf32>, tensor<4xf32>) {
  // CHECK: %[[A:.*]] = dt.reduce_scatter
  // CHECK-NEXT: %[[V:.*]] = dt.exp
  // CHECK-NEXT: %[[WA:.*]] = dt.wait %[[A]]
  // CHECK-DAG: dt.convert %[[WA]]
  // CHECK-DAG: %[[VIEW:.*]] = dt.reshape %[[WA]]
  // CHECK-DAG: dt.neg %[[VIEW]]
  // CHECK: %[[B:.*]] = dt.reduce_scatter sum %[[V]]
  // CHECK-NEXT: %[[E:.*]] = dt.sqrt
  // CHECK-NEXT: dt.mul %[[WA]], %[[E]]
  // CHECK-NEXT: dt.wait %[[B]]
  // CHECK-NEXT: return
  %u = dt.exp %x : tensor<4xf32>
  %a = dt.reduce_scatter sum %u along 0 over [#dt.axis_ref<"dp", 1, 0>] : tensor<4xf32> -> tensor<2xf32>
  %v = dt.exp %y : tensor<8xf32>
  %b = dt.reduce_scatter sum %v along 0 over [#dt.axis_ref<"dp", 1, 0>] : tensor<8xf32> -> tensor<4xf32>
  %e = dt.sqrt %z : tensor<2xf32>
  %c = dt.convert %a : tensor<2xf32> -> tensor<2xbf16>
  %view = dt.reshape %a : tensor<2xf32> -> tensor<1x2xf32>
  %n = dt.neg %view : tensor<1x2xf32>
  %m = dt.mul %a, %e : tensor<2xf32>
  return %c, %n, %m, %b : tensor<2xbf16>, tensor<1x2xf32>, tensor<2xf32>, tensor<4xf32>
}

// A gather of a parameter stands where its reader wants it, also when the parameter was converted long before.
// CHECK-LABEL: @leaves_gathers_of_parameters
func.func @leaves_gathers_of_parameters(%w: tensor<4xf32> {dt.port = #dt.port<parameter "w">}, %x: tensor<8xbf16>) -> tensor<8xbf16> {
  // CHECK: dt.convert %arg0
  // CHECK-NEXT: dt.exp
  // CHECK-NEXT: dt.all_gather
  // CHECK-NEXT: dt.wait
  %c = dt.convert %w : tensor<4xf32> -> tensor<4xbf16>
  %e = dt.exp %x : tensor<8xbf16>
  %g = dt.all_gather %c along 0 over [#dt.axis_ref<"dp", 1, 0>] : tensor<4xbf16> -> tensor<8xbf16>
  %y = dt.add %e, %g : tensor<8xbf16>
  return %y : tensor<8xbf16>
}

// Parameters stay anyway, also behind the barrier of a gather that is made again: nothing is waited for because of one.
// CHECK-LABEL: @gathers_of_parameters_keep_nothing
func.func @gathers_of_parameters_keep_nothing(%w: tensor<8xf32> {dt.port = #dt.port<parameter "w">}, %x: tensor<8xf32>) -> (tensor<8xf32>, tensor<16xf32>) {
  // CHECK-NEXT: %[[E:.*]] = dt.exp
  // CHECK-NEXT: %[[F:.*]] = dt.all_reduce sum %[[E]]
  // CHECK-NEXT: %[[B:.*]] = dt.barrier %arg0
  // CHECK-NEXT: %[[G:.*]] = dt.all_gather %[[B]]
  // CHECK-NEXT: dt.exp %arg1
  // CHECK-NEXT: dt.wait %[[F]]
  %e = dt.exp %x : tensor<8xf32>
  %s = dt.all_reduce sum %e over [#dt.axis_ref<"dp", 1, 0>] : tensor<8xf32> -> tensor<8xf32>
  %b = dt.barrier %w : tensor<8xf32>
  %g = dt.all_gather %b along 0 over [#dt.axis_ref<"dp", 1, 0>] : tensor<8xf32> -> tensor<16xf32>
  %y = dt.exp %x : tensor<8xf32>
  %z = dt.add %s, %y : tensor<8xf32>
  %r = dt.neg %g : tensor<16xf32>
  return %z, %r : tensor<8xf32>, tensor<16xf32>
}

// A view of a collective's value is no use of it.
// CHECK-LABEL: @waits_before_a_view_is_read
func.func @waits_before_a_view_is_read(%x: tensor<8xf32>, %y: tensor<2x4xf32>) -> tensor<2x4xf32> {
  // CHECK: %[[F:.*]] = dt.all_reduce
  // CHECK-NEXT: %[[E:.*]] = dt.exp
  // CHECK-NEXT: %[[V:.*]] = dt.wait %[[F]]
  // CHECK-NEXT: %[[VIEW:.*]] = dt.reshape %[[V]]
  // CHECK-NEXT: dt.add %[[VIEW]], %[[E]]
  %sum = dt.all_reduce sum %x over [#dt.axis_ref<"dp", 1, 0>] : tensor<8xf32> -> tensor<8xf32>
  %view = dt.reshape %sum : tensor<8xf32> -> tensor<2x4xf32>
  %e = dt.exp %y : tensor<2x4xf32>
  %r = dt.add %view, %e : tensor<2x4xf32>
  return %r : tensor<2x4xf32>
}

// A collective of what was computed starts right behind that, in the order of the collectives; one of what a view of it
// shows takes the view along. What is returned where it was reduced keeps no memory, so nothing waits for the oldest.
// CHECK-LABEL: @starts_where_the_operand_is_there
func.func @starts_where_the_operand_is_there(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<2x4xf32>, tensor<8xf32>, tensor<8xf32>) {
  // CHECK: %[[A:.*]] = dt.exp %arg0
  // CHECK-NEXT: %[[F:.*]] = dt.all_reduce sum %[[A]]
  // CHECK-NEXT: %[[V:.*]] = dt.reshape %[[A]]
  // CHECK-NEXT: %[[G:.*]] = dt.all_reduce max %[[V]]
  // CHECK-NEXT: %[[B:.*]] = dt.exp %[[A]]
  // CHECK-NEXT: %[[H:.*]] = dt.all_reduce sum %[[B]]
  // CHECK-NEXT: %[[C:.*]] = dt.exp %[[B]]
  // CHECK-NEXT: dt.wait %[[F]]
  // CHECK-NEXT: dt.wait %[[G]]
  // CHECK-NEXT: dt.wait %[[H]]
  // CHECK-NEXT: return
  %a = dt.exp %x : tensor<8xf32>
  %b = dt.exp %a : tensor<8xf32>
  %c = dt.exp %b : tensor<8xf32>
  %view = dt.reshape %a : tensor<8xf32> -> tensor<2x4xf32>
  %f = dt.all_reduce sum %a over [#dt.axis_ref<"dp", 1, 0>] : tensor<8xf32> -> tensor<8xf32>
  %g = dt.all_reduce max %view over [#dt.axis_ref<"dp", 1, 0>] : tensor<2x4xf32> -> tensor<2x4xf32>
  %h = dt.all_reduce sum %b over [#dt.axis_ref<"dp", 1, 0>] : tensor<8xf32> -> tensor<8xf32>
  return %f, %g, %h, %c : tensor<8xf32>, tensor<2x4xf32>, tensor<8xf32>, tensor<8xf32>
}

// A table to which rows are added in the end may be under way until then: nothing waits for it, though it is the largest.
// Where something else has been waited for because of its size, so is the rest before the rows, in the order of the starts.
// CHECK-LABEL: @a_table_is_under_way_until_its_rows_come
func.func @a_table_is_under_way_until_its_rows_come(%x: tensor<8x2xf32>, %y: tensor<8xf32>, %ids: tensor<2xi32>, %rows: tensor<1x2xf32>)
    -> (tensor<4x2xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  // CHECK: %[[T:.*]] = dt.reduce_scatter sum %{{.*}} : tensor<8x2xf32> -> !dt.future
  // CHECK-NEXT: dt.sqrt
  // CHECK-NEXT: %[[A:.*]] = dt.all_reduce
  // CHECK-NEXT: dt.tanh
  // CHECK-NEXT: %[[B:.*]] = dt.all_reduce
  // CHECK-NEXT: dt.exp
  // CHECK-NEXT: %[[WT:.*]] = dt.wait %[[T]]
  // CHECK-NEXT: %[[WA:.*]] = dt.wait %[[A]]
  // CHECK-NEXT: dt.neg %[[WA]]
  // CHECK-NEXT: %[[C:.*]] = dt.all_reduce
  // CHECK-NEXT: %[[R:.*]] = dt.all_gather
  // CHECK-NEXT: %[[WB:.*]] = dt.wait %[[B]]
  // CHECK-NEXT: dt.neg %[[WB]]
  // CHECK-NEXT: %[[WC:.*]] = dt.wait %[[C]]
  // CHECK-NEXT: dt.neg %[[WC]]
  // CHECK-NEXT: %[[WR:.*]] = dt.wait %[[R]]
  // CHECK-NEXT: dt.scatter_add %[[WT]], %{{.*}}, %[[WR]]
  %t = dt.exp %x : tensor<8x2xf32>
  %r = dt.reduce_scatter sum %t along 0 over [#dt.axis_ref<"dp", 1, 0>] : tensor<8x2xf32> -> tensor<4x2xf32>
  %u = dt.sqrt %y : tensor<8xf32>
  %a = dt.all_reduce sum %u over [#dt.axis_ref<"dp", 1, 0>] : tensor<8xf32> -> tensor<8xf32>
  %v = dt.tanh %y : tensor<8xf32>
  %b = dt.all_reduce sum %v over [#dt.axis_ref<"dp", 1, 0>] : tensor<8xf32> -> tensor<8xf32>
  %w = dt.exp %y : tensor<8xf32>
  %c = dt.all_reduce sum %w over [#dt.axis_ref<"dp", 1, 0>] : tensor<8xf32> -> tensor<8xf32>
  %g = dt.all_gather %rows along 0 over [#dt.axis_ref<"dp", 1, 0>] : tensor<1x2xf32> -> tensor<2x2xf32>
  %s = dt.scatter_add %r, %ids, %g : tensor<4x2xf32>, tensor<2xi32>, tensor<2x2xf32>
  %na = dt.neg %a : tensor<8xf32>
  %nb = dt.neg %b : tensor<8xf32>
  %nc = dt.neg %c : tensor<8xf32>
  return %s, %nc, %na, %nb : tensor<4x2xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

}
