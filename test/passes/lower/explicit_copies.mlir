// What an operation overwrites must be its own.

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

// What nothing reads afterwards is taken over.
// CHECK-LABEL: func.func @last_readers_take_over
// CHECK-NOT: dt.copy
// CHECK: return
func.func @last_readers_take_over(%t: tensor<4x3xf32>, %i: tensor<2xi32>, %u: tensor<2x3xf32>) -> tensor<4x3xf32> {
  %own = dt.exp %t : tensor<4x3xf32>
  %a = dt.scatter_add %own, %i, %u : tensor<4x3xf32>, tensor<2xi32>, tensor<2x3xf32>
  return %a : tensor<4x3xf32>
}
