// RUN: dtc-opt %s --dt-share-gathers=ahead=1 | FileCheck %s --check-prefixes=CHECK,ONE
// RUN: dtc-opt %s --dt-share-gathers=ahead=0 | FileCheck %s --check-prefixes=CHECK,NONE
// A limit that nothing reaches.
// RUN: dtc-opt %s --dt-share-gathers=ahead=9223372036854775807 | FileCheck %s --check-prefixes=CHECK,ALL
// Nothing that merges equal operations takes it back.
// RUN: dtc-opt %s --dt-share-gathers=ahead=1 --cse --canonicalize | FileCheck %s --check-prefixes=CHECK,ONE
// RUN: not dtc-opt %s --dt-share-gathers='gathers="h.*=often"' 2>&1 | FileCheck %s --check-prefix=REFUSED

// REFUSED: error: 'h.*=often' is not PATTERN=HOW, where HOW is shared or again, or counts such as 8 again, 4 shared

module attributes {dt.mesh = #dt.mesh<"dp" = 2, "tp" = 2>} {

// Two products, one turn apart. A gather that is made again says why its own reader needs it, and belongs to it.
// CHECK-LABEL: @near_readers_share_a_gather
func.func @near_readers_share_a_gather(%w: tensor<4x8xf32> {dt.port = #dt.port<parameter "w">}, %x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  // CHECK: %[[G:.*]] = dt.all_gather %arg0 {{.*}}reason = "one"
  // CHECK-NEXT: dt.contract "ab,bc->ac" %arg1, %[[G]]
  // ONE-NEXT: dt.contract "ab,cb->ac" %{{.*}}, %[[G]]
  // ONE-NEXT: return
  // ALL-NEXT: dt.contract "ab,cb->ac" %{{.*}}, %[[G]]
  // ALL-NEXT: return
  // NONE-NEXT: %[[B:.*]] = dt.barrier %arg0 {dt.direction = #dt.direction<input_gradient>}
  // NONE-NEXT: %[[H:.*]] = dt.all_gather %[[B]] {{.*}}dt.direction = #dt.direction<input_gradient>, reason = "other"
  // NONE-NEXT: dt.contract "ab,cb->ac" %{{.*}}, %[[H]]
  %g = dt.all_gather %w along 0 over [#dt.axis_ref<"dp", 1, 0>] {reason = "one"} : tensor<4x8xf32> -> tensor<8x8xf32>
  %y = dt.contract "ab,bc->ac" %x, %g {dt.direction = #dt.direction<forward>} : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %h = dt.all_gather %w along 0 over [#dt.axis_ref<"dp", 1, 0>] {dt.direction = #dt.direction<forward>, reason = "other"} : tensor<4x8xf32> -> tensor<8x8xf32>
  %z = dt.contract "ab,cb->ac" %y, %h {dt.direction = #dt.direction<input_gradient>} : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  return %z : tensor<8x8xf32>
}

// A gather over another axis is another one, though its result has the same type; so is that of another parameter.
// CHECK-LABEL: @different_gathers_are_not_shared
func.func @different_gathers_are_not_shared(%a: tensor<4x8xf32> {dt.port = #dt.port<parameter "a">}, %b: tensor<4x8xf32> {dt.port = #dt.port<parameter "b">}, %x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  // CHECK-NEXT: %[[F:.*]] = dt.all_gather %arg0 along 0 over [#dt.axis_ref<"dp", 1, 0>]
  // CHECK-NEXT: dt.contract {{.*}} %arg2, %[[F]]
  // CHECK-NEXT: %[[G:.*]] = dt.all_gather %arg0 along 0 over [#dt.axis_ref<"tp", 1, 0>]
  // CHECK-NEXT: dt.contract {{.*}}, %[[G]]
  // CHECK-NEXT: %[[H:.*]] = dt.all_gather %arg1 along 0 over [#dt.axis_ref<"tp", 1, 0>]
  // CHECK-NEXT: dt.contract {{.*}}, %[[H]]
  %f = dt.all_gather %a along 0 over [#dt.axis_ref<"dp", 1, 0>] : tensor<4x8xf32> -> tensor<8x8xf32>
  %y = dt.contract "ab,bc->ac" %x, %f : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %g = dt.all_gather %a along 0 over [#dt.axis_ref<"tp", 1, 0>] : tensor<4x8xf32> -> tensor<8x8xf32>
  %z = dt.contract "ab,bc->ac" %y, %g : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %h = dt.all_gather %b along 0 over [#dt.axis_ref<"tp", 1, 0>] : tensor<4x8xf32> -> tensor<8x8xf32>
  %r = dt.contract "ab,bc->ac" %z, %h : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  return %r : tensor<8x8xf32>
}

// The first and the last of four turns. All that makes what is gathered is made again, so that nothing of it is kept.
// CHECK-LABEL: @a_distant_reader_has_its_parameter_converted_and_gathered_again
func.func @a_distant_reader_has_its_parameter_converted_and_gathered_again(
    %w: tensor<4x8xf32> {dt.port = #dt.port<parameter "w">}, %v: tensor<4x8xbf16> {dt.port = #dt.port<copy "v">}, %x: tensor<8x8xbf16>) -> tensor<8x8xbf16> {
  // CHECK: %[[N:.*]] = dt.convert %arg0
  // CHECK-NEXT: %[[G:.*]] = dt.all_gather %[[N]]
  // CHECK-NEXT: dt.contract {{.*}} %arg2, %[[G]]
  // CHECK-NEXT: %[[V:.*]] = dt.all_gather %arg1
  // ONE: dt.contract {{.*}} %{{.*}}, %[[V]]
  // ONE-NEXT: dt.contract {{.*}} %{{.*}}, %[[V]]
  // ONE-NEXT: %[[B:.*]] = dt.barrier %arg0
  // ONE-NEXT: %[[N2:.*]] = dt.convert %[[B]]
  // ONE-NEXT: %[[G2:.*]] = dt.all_gather %[[N2]]
  // ONE-NEXT: dt.contract {{.*}} %{{.*}}, %[[G2]]
  // ALL-NOT: dt.barrier
  // ALL-NOT: dt.all_gather
  // CHECK: return
  %n = dt.convert %w : tensor<4x8xf32> -> tensor<4x8xbf16>
  %g = dt.all_gather %n along 0 over [#dt.axis_ref<"dp", 1, 0>] : tensor<4x8xbf16> -> tensor<8x8xbf16>
  %p = dt.contract "ab,bc->ac" %x, %g : tensor<8x8xbf16>, tensor<8x8xbf16> -> tensor<8x8xbf16>
  %h = dt.all_gather %v along 0 over [#dt.axis_ref<"dp", 1, 0>] : tensor<4x8xbf16> -> tensor<8x8xbf16>
  %q = dt.contract "ab,bc->ac" %p, %h : tensor<8x8xbf16>, tensor<8x8xbf16> -> tensor<8x8xbf16>
  %r = dt.contract "ab,bc->ac" %q, %h : tensor<8x8xbf16>, tensor<8x8xbf16> -> tensor<8x8xbf16>
  %i = dt.all_gather %n along 0 over [#dt.axis_ref<"dp", 1, 0>] : tensor<4x8xbf16> -> tensor<8x8xbf16>
  %s = dt.contract "ab,bc->ac" %r, %i : tensor<8x8xbf16>, tensor<8x8xbf16> -> tensor<8x8xbf16>
  return %s : tensor<8x8xbf16>
}

// The sum of a product and a bias is computed in the kernels that read it: the late one has a sum of its own, with the
// bias gathered again and the view of it, else it would read what was gathered for the first.
// CHECK-LABEL: @what_is_computed_where_it_is_read_is_copied
func.func @what_is_computed_where_it_is_read_is_copied(
    %b: tensor<1x4xf32> {dt.port = #dt.port<parameter "b">}, %w: tensor<4x8xf32> {dt.port = #dt.port<parameter "w">}, %x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  // ONE: %[[C:.*]] = dt.contract "ab,bc->ac" %arg2, %arg2
  // ONE-NEXT: %[[G:.*]] = dt.all_gather %arg0
  // ONE: dt.gelu
  // ONE: %[[AGAIN:.*]] = dt.barrier %arg0 {dt.direction = #dt.direction<input_gradient>}
  // ONE-NEXT: %[[G2:.*]] = dt.all_gather %[[AGAIN]]
  // ONE-NEXT: %[[V2:.*]] = dt.reshape %[[G2]] {dt.direction = #dt.direction<input_gradient>}
  // ONE-NEXT: %[[B2:.*]] = dt.broadcast %[[V2]]
  // ONE-NEXT: %[[S2:.*]] = dt.add %[[C]], %[[B2]]
  // ONE-NEXT: dt.gelu_grad %{{.*}}, %[[S2]]
  // ALL-COUNT-2: dt.all_gather
  // ALL-NOT: dt.all_gather
  // CHECK: return
  %c = dt.contract "ab,bc->ac" %x, %x {dt.direction = #dt.direction<forward>} : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %g = dt.all_gather %b along 0 over [#dt.axis_ref<"dp", 1, 0>] : tensor<1x4xf32> -> tensor<2x4xf32>
  %row = dt.reshape %g : tensor<2x4xf32> -> tensor<8xf32>
  %bias = dt.broadcast %row dims [1] : tensor<8xf32> -> tensor<8x8xf32>
  %sum = dt.add %c, %bias : tensor<8x8xf32>
  %y = dt.gelu %sum tanh {dt.direction = #dt.direction<forward>} : tensor<8x8xf32>
  %h = dt.all_gather %w along 0 over [#dt.axis_ref<"dp", 1, 0>] : tensor<4x8xf32> -> tensor<8x8xf32>
  %z = dt.contract "ab,bc->ac" %y, %h {dt.direction = #dt.direction<forward>} : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %d = dt.contract "ab,cb->ac" %z, %h {dt.direction = #dt.direction<input_gradient>} : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %r = dt.gelu_grad %d, %sum tanh {dt.direction = #dt.direction<input_gradient>} : tensor<8x8xf32>
  return %r : tensor<8x8xf32>
}

// Two sums over the same tensor will be one kernel, and so one reader, whatever the limit. One of what a product made of
// these is another kernel.
// CHECK-LABEL: @readers_in_one_kernel_are_one_turn
func.func @readers_in_one_kernel_are_one_turn(%s: tensor<4xf32> {dt.port = #dt.port<parameter "s">}, %x: tensor<8x8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8x8xf32>) {
  // CHECK: %[[G:.*]] = dt.all_gather %arg0
  // CHECK-NEXT: dt.broadcast %[[G]]
  // CHECK: dt.reduce
  // CHECK-NOT: dt.all_gather
  // CHECK: dt.reduce
  // NONE: %[[B:.*]] = dt.barrier %arg0
  // NONE-NEXT: dt.all_gather %[[B]]
  // ONE-NOT: dt.all_gather
  // ALL-NOT: dt.all_gather
  // CHECK: return
  %g = dt.all_gather %s along 0 over [#dt.axis_ref<"dp", 1, 0>] : tensor<4xf32> -> tensor<8xf32>
  %scale = dt.broadcast %g dims [1] : tensor<8xf32> -> tensor<8x8xf32>
  %a = dt.mul %x, %scale : tensor<8x8xf32>
  %p = dt.reduce sum %a over [1] : tensor<8x8xf32> -> tensor<8xf32>
  %h = dt.all_gather %s along 0 over [#dt.axis_ref<"dp", 1, 0>] : tensor<4xf32> -> tensor<8xf32>
  %scale2 = dt.broadcast %h dims [1] : tensor<8xf32> -> tensor<8x8xf32>
  %b = dt.add %x, %scale2 : tensor<8x8xf32>
  %q = dt.reduce sum %b over [1] : tensor<8x8xf32> -> tensor<8xf32>
  %c = dt.contract "ab,b->a" %x, %p : tensor<8x8xf32>, tensor<8xf32> -> tensor<8xf32>
  %rows = dt.broadcast %c dims [0] : tensor<8xf32> -> tensor<8x8xf32>
  %d = dt.mul %rows, %scale2 : tensor<8x8xf32>
  return %p, %q, %d : tensor<8xf32>, tensor<8xf32>, tensor<8x8xf32>
}

// What is gathered, sliced and gathered again is one gather: all of it is made again, and its slice takes no turn.
// CHECK-LABEL: @gathers_on_the_way_go_along
func.func @gathers_on_the_way_go_along(%a: tensor<1x8xf32> {dt.port = #dt.port<parameter "a">}, %x: tensor<2x2xf32>) -> tensor<2x8xf32> {
  // NONE: dt.contract
  // NONE-NEXT: %[[B:.*]] = dt.barrier %arg0
  // NONE-NEXT: %[[G:.*]] = dt.all_gather %[[B]] along 0 over [#dt.axis_ref<"tp", 1, 0>]
  // NONE-NEXT: %[[S:.*]] = dt.shard_slice %[[G]]
  // NONE-NEXT: %[[H:.*]] = dt.all_gather %[[S]] along 0 over [#dt.axis_ref<"dp", 1, 0>]
  // NONE-NEXT: dt.contract {{.*}}, %[[H]]
  // ONE-COUNT-2: dt.all_gather
  // ONE-NOT: dt.all_gather
  // CHECK: return
  %g = dt.all_gather %a along 0 over [#dt.axis_ref<"tp", 1, 0>] : tensor<1x8xf32> -> tensor<2x8xf32>
  %c = dt.shard_slice %g along 0 over [#dt.axis_ref<"dp", 1, 0>] : tensor<2x8xf32> -> tensor<1x8xf32>
  %h = dt.all_gather %c along 0 over [#dt.axis_ref<"dp", 1, 0>] : tensor<1x8xf32> -> tensor<2x8xf32>
  %y = dt.contract "ab,bc->ac" %x, %h : tensor<2x2xf32>, tensor<2x8xf32> -> tensor<2x8xf32>
  %z = dt.contract "ab,cb->ac" %y, %h : tensor<2x8xf32>, tensor<2x8xf32> -> tensor<2x2xf32>
  %r = dt.contract "ab,bc->ac" %z, %y : tensor<2x2xf32>, tensor<2x8xf32> -> tensor<2x8xf32>
  return %r : tensor<2x8xf32>
}

// Inputs are no state; what is returned is whole to the end, whoever reads it before.
// CHECK-LABEL: @only_state_that_is_read
func.func @only_state_that_is_read(
    %a: tensor<4x8xf32> {dt.port = #dt.port<parameter "a">}, %i: tensor<4x8xf32> {dt.port = #dt.port<input "i">}, %x: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  // CHECK-NOT: dt.barrier
  // CHECK: return
  %g = dt.all_gather %i along 0 over [#dt.axis_ref<"dp", 1, 0>] : tensor<4x8xf32> -> tensor<8x8xf32>
  %h = dt.all_gather %a along 0 over [#dt.axis_ref<"dp", 1, 0>] : tensor<4x8xf32> -> tensor<8x8xf32>
  %y = dt.contract "ab,bc->ac" %x, %g : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %p = dt.contract "ab,bc->ac" %y, %h : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %q = dt.contract "ab,cb->ac" %p, %h : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %z = dt.contract "ab,bc->ac" %q, %g : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  return %z, %h : tensor<8x8xf32>, tensor<8x8xf32>
}

}
