// An operation must own what it overwrites.

// RUN: dtc-opt %s --pass-pipeline='builtin.module(func.func(dt-explicit-copies))' | FileCheck %s

// Two tables of gradients start from equal zeros, which folding has made one constant: each gets its own.
// CHECK-LABEL: func.func @constants_are_not_shared
// CHECK: dt.scatter_add [[FIRST:%[^,]*]],
// CHECK-NOT: dt.scatter_add [[FIRST]],
// CHECK: dt.scatter_add
func.func @constants_are_not_shared(%i: tensor<2xi32>, %u: tensor<2x3xf32>) -> (tensor<4x3xf32>, tensor<4x3xf32>) {
  %zeros = dt.constant dense<0.0> : tensor<4x3xf32>
  %a = dt.scatter_add %zeros, %i, %u : tensor<4x3xf32>, tensor<2xi32>, tensor<2x3xf32>
  %b = dt.scatter_add %zeros, %i, %u : tensor<4x3xf32>, tensor<2xi32>, tensor<2x3xf32>
  return %a, %b : tensor<4x3xf32>, tensor<4x3xf32>
}

// An argument belongs to the caller.
// CHECK-LABEL: func.func @arguments_are_copied
// CHECK-SAME: [[T:%[^:]*]]: tensor<4x3xf32>
// CHECK: [[COPY:%.*]] = dt.copy [[T]]
// CHECK: dt.scatter_add [[COPY]],
func.func @arguments_are_copied(%t: tensor<4x3xf32>, %i: tensor<2xi32>, %u: tensor<2x3xf32>) -> tensor<4x3xf32> {
  %a = dt.scatter_add %t, %i, %u : tensor<4x3xf32>, tensor<2xi32>, tensor<2x3xf32>
  return %a : tensor<4x3xf32>
}

// But not what the function returns in its place, as long as nothing reads it afterwards: a cache.
// CHECK-LABEL: func.func @what_is_returned_anew_is_overwritten
// CHECK-SAME: [[C:%[^:]*]]: tensor<2x8x4xf32>
// CHECK-NOT: dt.copy
// CHECK: dt.write_rows {{.*}} into [[C]]
// CHECK: return
func.func @what_is_returned_anew_is_overwritten(%c: tensor<2x8x4xf32> {dt.port = #dt.port<cache "c">}, %r: tensor<2x1x4xf32> {dt.port = #dt.port<input "r">}, %p: tensor<1xi32> {dt.port = #dt.port<input "p">})
    -> (tensor<2x8x4xf32> {dt.port = #dt.port<cache "c">}) {
  %0 = dt.write_rows %r into %c at %p : tensor<2x1x4xf32>, tensor<1xi32> -> tensor<2x8x4xf32>
  return %0 : tensor<2x8x4xf32>
}

// CHECK-LABEL: func.func @what_is_returned_as_another_is_copied
// CHECK-SAME: [[C:%[^:]*]]: tensor<2x8x4xf32>
// CHECK: [[COPY:%.*]] = dt.copy [[C]]
// CHECK: dt.write_rows {{.*}} into [[COPY]]
func.func @what_is_returned_as_another_is_copied(%c: tensor<2x8x4xf32> {dt.port = #dt.port<cache "c">}, %r: tensor<2x1x4xf32> {dt.port = #dt.port<input "r">}, %p: tensor<1xi32> {dt.port = #dt.port<input "p">})
    -> (tensor<2x8x4xf32> {dt.port = #dt.port<cache "other">}) {
  %0 = dt.write_rows %r into %c at %p : tensor<2x1x4xf32>, tensor<1xi32> -> tensor<2x8x4xf32>
  return %0 : tensor<2x8x4xf32>
}

// What nothing reads afterwards is overwritten.
// CHECK-LABEL: func.func @last_readers_take_over
// CHECK-NOT: dt.copy
// CHECK: return
func.func @last_readers_take_over(%t: tensor<4x3xf32>, %i: tensor<2xi32>, %u: tensor<2x3xf32>) -> tensor<4x3xf32> {
  %own = dt.exp %t : tensor<4x3xf32>
  %a = dt.scatter_add %own, %i, %u : tensor<4x3xf32>, tensor<2xi32>, tensor<2x3xf32>
  return %a : tensor<4x3xf32>
}

// What is read again later is not.
// CHECK-LABEL: func.func @later_readers_keep_it
// CHECK: [[OWN:%.*]] = dt.exp
// CHECK: [[COPY:%.*]] = dt.copy [[OWN]]
// CHECK: dt.scatter_add [[COPY]],
// CHECK: dt.contract {{.*}} [[OWN]],
func.func @later_readers_keep_it(%t: tensor<4x3xf32>, %i: tensor<2xi32>, %u: tensor<2x3xf32>) -> (tensor<4x3xf32>, tensor<4x4xf32>) {
  %own = dt.exp %t : tensor<4x3xf32>
  %a = dt.scatter_add %own, %i, %u : tensor<4x3xf32>, tensor<2xi32>, tensor<2x3xf32>
  %b = dt.contract "ab,cb->ac" %own, %t : tensor<4x3xf32>, tensor<4x3xf32> -> tensor<4x4xf32>
  return %a, %b : tensor<4x3xf32>, tensor<4x4xf32>
}

// Padding is zeros with the operand written into them.
// CHECK-LABEL: func.func @pads_with_zeros
// CHECK: [[ZEROS:%.*]] = dt.constant dense<0.000000e+00>
// CHECK: dt.update_slice %arg0 into [[ZEROS]]
func.func @pads_with_zeros(%x: tensor<2x2xf32>) -> tensor<3x4xf32> {
  %y = dt.pad %x at [1, 1] : tensor<2x2xf32> -> tensor<3x4xf32>
  return %y : tensor<3x4xf32>
}

// A kernel writes a number straight to its place in a vector; of larger results it wants the beginning aligned.
// CHECK-LABEL: func.func @numbers_are_written_in_place
// CHECK: [[N:%.*]] = dt.launch @number
// CHECK: [[R:%.*]] = dt.launch @row
// CHECK: [[C:%.*]] = dt.copy [[R]]
// CHECK: dt.concat [[N]], [[C]] along 0
dt.kernel @number(%x: tensor<3xf32>) -> tensor<f32> {
  %y = dt.reduce sum %x over [0] : tensor<3xf32> -> tensor<f32>
  dt.yield %y : tensor<f32>
}
dt.kernel @row(%x: tensor<3xf32>) -> tensor<3xf32> {
  %y = dt.exp %x : tensor<3xf32>
  dt.yield %y : tensor<3xf32>
}
func.func @numbers_are_written_in_place(%x: tensor<3xf32>) -> tensor<4xf32> {
  %n = dt.launch @number(%x) : (tensor<3xf32>) -> tensor<f32>
  %r = dt.launch @row(%x) : (tensor<3xf32>) -> tensor<3xf32>
  %c = dt.concat %n, %r along 0 : tensor<f32>, tensor<3xf32> -> tensor<4xf32>
  return %c : tensor<4xf32>
}

// A concatenation's operand is written into it though others read it, too; what is no operation's is copied there.
// CHECK-LABEL: func.func @what_others_read_is_written_in_place
// CHECK-SAME: [[X:%[^:]*]]: tensor<2x3xf32>
// CHECK: [[P:%.*]] = dt.contract
// CHECK: [[C:%.*]] = dt.copy [[X]]
// CHECK: dt.concat [[P]], [[C]]
func.func @what_others_read_is_written_in_place(%x: tensor<2x3xf32>, %w: tensor<3x3xf32>) -> (tensor<4x3xf32>, tensor<2x3xf32>) {
  %p = dt.contract "ab,bc->ac" %x, %w : tensor<2x3xf32>, tensor<3x3xf32> -> tensor<2x3xf32>
  %q = dt.contract "ab,bc->ac" %p, %w : tensor<2x3xf32>, tensor<3x3xf32> -> tensor<2x3xf32>
  %c = dt.concat %p, %x along 0 : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<4x3xf32>
  return %c, %q : tensor<4x3xf32>, tensor<2x3xf32>
}

// What is put together once more is copied there, and so is what something overwrites.
// CHECK-LABEL: func.func @what_is_needed_elsewhere_is_copied
// CHECK-DAG: [[P:%.*]] = dt.contract "ab,bc->ac" %arg0, %arg1
// CHECK-DAG: [[Q:%.*]] = dt.contract "ab,bc->ac" %arg1, %arg0
// CHECK: dt.concat [[P]],
// CHECK: [[C:%.*]] = dt.copy [[P]]
// CHECK: dt.concat [[C]],
// CHECK: [[D:%.*]] = dt.copy [[Q]]
// CHECK: dt.concat [[D]],
func.func @what_is_needed_elsewhere_is_copied(%x: tensor<3x3xf32>, %w: tensor<3x3xf32>, %i: tensor<2xi32>, %u: tensor<2x3xf32>) -> (tensor<6x3xf32>, tensor<6x3xf32>, tensor<6x3xf32>, tensor<3x3xf32>) {
  %p = dt.contract "ab,bc->ac" %x, %w : tensor<3x3xf32>, tensor<3x3xf32> -> tensor<3x3xf32>
  %q = dt.contract "ab,bc->ac" %w, %x : tensor<3x3xf32>, tensor<3x3xf32> -> tensor<3x3xf32>
  %c = dt.concat %p, %x along 0 : tensor<3x3xf32>, tensor<3x3xf32> -> tensor<6x3xf32>
  %d = dt.concat %p, %w along 0 : tensor<3x3xf32>, tensor<3x3xf32> -> tensor<6x3xf32>
  %e = dt.concat %q, %w along 0 : tensor<3x3xf32>, tensor<3x3xf32> -> tensor<6x3xf32>
  %a = dt.scatter_add %q, %i, %u : tensor<3x3xf32>, tensor<2xi32>, tensor<2x3xf32>
  return %c, %d, %e, %a : tensor<6x3xf32>, tensor<6x3xf32>, tensor<6x3xf32>, tensor<3x3xf32>
}

// Gathered pieces and kernels' results are placed where a vector may begin.
// CHECK-LABEL: func.func @parts_begin_where_vectors_may
// CHECK: [[G:%.*]] = dt.all_gather
// CHECK: [[H:%.*]] = dt.all_gather
// CHECK-NOT: dt.copy
// CHECK: dt.concat [[G]], [[H]]
// CHECK: [[S:%.*]] = dt.all_gather
// CHECK: [[I:%.*]] = dt.all_gather
// CHECK: [[C:%.*]] = dt.copy [[I]]
// CHECK: dt.concat [[S]], [[C]]
func.func @parts_begin_where_vectors_may(%x: tensor<32xf32>, %y: tensor<2xf32>) -> (tensor<128xf32>, tensor<68xf32>) {
  %g = dt.all_gather %x along 0 over [#dt.axis_ref<"dp", 1, 0>] : tensor<32xf32> -> tensor<64xf32>
  %h = dt.all_gather %x along 0 over [#dt.axis_ref<"dp", 1, 0>] : tensor<32xf32> -> tensor<64xf32>
  %c = dt.concat %g, %h along 0 : tensor<64xf32>, tensor<64xf32> -> tensor<128xf32>
  %s = dt.all_gather %y along 0 over [#dt.axis_ref<"dp", 1, 0>] : tensor<2xf32> -> tensor<4xf32>
  %i = dt.all_gather %x along 0 over [#dt.axis_ref<"dp", 1, 0>] : tensor<32xf32> -> tensor<64xf32>
  %d = dt.concat %s, %i along 0 : tensor<4xf32>, tensor<64xf32> -> tensor<68xf32>
  return %c, %d : tensor<128xf32>, tensor<68xf32>
}

// What is a part of another lies in a buffer that the result's place may have no room for.
// CHECK-LABEL: func.func @parts_are_copied
// CHECK: [[PART:%.*]] = dt.slice
// CHECK: [[COPY:%.*]] = dt.copy [[PART]]
// CHECK: dt.scatter_add [[COPY]],
func.func @parts_are_copied(%t: tensor<5x3xf32>, %i: tensor<2xi32>, %u: tensor<2x3xf32>) -> tensor<4x3xf32> {
  %own = dt.exp %t : tensor<5x3xf32>
  %part = dt.slice %own at [0, 0] : tensor<5x3xf32> -> tensor<4x3xf32>
  %a = dt.scatter_add %part, %i, %u : tensor<4x3xf32>, tensor<2xi32>, tensor<2x3xf32>
  return %a : tensor<4x3xf32>
}
