// RUN: dtc-opt %s --dt-plan-memory --dt-verify-when --split-input-file | FileCheck %s
// RUN: sh -c 'dtc-opt %s --dt-plan-memory=limit=2097151 --split-input-file; test $? = 1' 2>&1 | FileCheck %s --check-prefix=LIMIT

// State first, then what lives in between; what peers see begins on a page, and the result is computed where it is to lie.
// CHECK: module attributes {dt.arena = {bytes = [[BYTES:[0-9]+]] : i64, shared = 2097152 : i64}
// CHECK: func.func @update(%arg0: tensor<16xf32> {{.*}} attributes {dt.offsets = {arguments = array<i64: 0>, results = array<i64: 2097152>, values = array<i64: 2097152, 2097152>}}
// CHECK-NEXT: dt.launch @exp(%arg0)
// CHECK-NEXT: dt.all_reduce sum
// CHECK-NEXT: %{{.*}} = dt.wait %{{[0-9]+}} :
// LIMIT: error: a rank needs 2097216 bytes, the limit is 2097151; use more ranks, a smaller micro-batch or more accumulation
// LIMIT: note: parameters: 64 bytes

module attributes {dt.mesh = #dt.mesh<"dp" = 2>} {
dt.kernel @exp(%x: tensor<16xf32>) -> tensor<16xf32> {
  %y = dt.exp %x : tensor<16xf32>
  dt.yield %y : tensor<16xf32>
}
func.func @update(%p: tensor<16xf32> {dt.port = #dt.port<parameter "p">})
    -> (tensor<16xf32> {dt.port = #dt.port<output "y">}) {
  %e = dt.launch @exp(%p) : (tensor<16xf32>) -> tensor<16xf32>
  %f = dt.all_reduce sum %e over [#dt.axis_ref<"dp", 1, 0>] : tensor<16xf32> -> !dt.future<tensor<16xf32>>
  %w = dt.wait %f : !dt.future<tensor<16xf32>> -> tensor<16xf32>
  return %w : tensor<16xf32>
}
}

// -----

// What leaves for the host has its place behind the arena; while it is away another takes the one that it had. What is
// there again needs none there.
// CHECK: module attributes {dt.arena = {bytes = 2097152 : i64, host = 64 : i64, shared = 2097152 : i64}
// CHECK: func.func @away({{.*}} attributes {dt.offsets = {arguments = array<i64: 0>, results = array<i64: 64>, values = array<i64: [[A:[0-9]+]], 2097152, [[A]], {{[0-9]+}}, 64>}}
module attributes {dt.mesh = #dt.mesh<"dp" = 1>} {
func.func @away(%p: tensor<4x4xf32> {dt.port = #dt.port<parameter "p">})
    -> (tensor<4x4xf32> {dt.port = #dt.port<output "y">}) {
  %a = dt.contract "ab,bc->ac" %p, %p : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %o = dt.offload %a : tensor<4x4xf32> -> !dt.future<tensor<4x4xf32>>
  %h = dt.wait %o : !dt.future<tensor<4x4xf32>> -> tensor<4x4xf32>
  %b = dt.contract "ab,bc->ac" %p, %p : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %f = dt.fetch %h : tensor<4x4xf32> -> !dt.future<tensor<4x4xf32>>
  %c = dt.wait %f : !dt.future<tensor<4x4xf32>> -> tensor<4x4xf32>
  %y = dt.contract "ab,bc->ac" %b, %c : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  return %y : tensor<4x4xf32>
}
}
