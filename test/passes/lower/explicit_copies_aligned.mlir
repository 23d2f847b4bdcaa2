// A kernel's operand may be a part of a tensor. Processors read vectors anywhere, kernels for GPUs at multiples of 16 bytes.

// RUN: dtc-opt %s --split-input-file --pass-pipeline='builtin.module(func.func(dt-explicit-copies))' | FileCheck %s

module attributes {dt.target = "cuda:sm_90"} {
dt.kernel @k(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %y = dt.exp %x : tensor<2x3xf32>
  dt.yield %y : tensor<2x3xf32>
}

// Rows of three: the second begins at byte 12, the fifth at 48.
// CHECK-LABEL: func.func @odd_parts_are_copied
// CHECK: [[ODD:%.*]] = dt.slice %arg0 at [1, 0]
// CHECK: [[EVEN:%.*]] = dt.slice %arg0 at [4, 0]
// CHECK: [[COPY:%.*]] = dt.copy [[ODD]]
// CHECK: dt.launch @k([[COPY]])
// CHECK-NOT: dt.copy
// CHECK: dt.launch @k([[EVEN]])
func.func @odd_parts_are_copied(%x: tensor<6x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>) {
  %odd = dt.slice %x at [1, 0] : tensor<6x3xf32> -> tensor<2x3xf32>
  %even = dt.slice %x at [4, 0] : tensor<6x3xf32> -> tensor<2x3xf32>
  %a = dt.launch @k(%odd) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %b = dt.launch @k(%even) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %a, %b : tensor<2x3xf32>, tensor<2x3xf32>
}

// The library's kernels take elements as they lie.
// CHECK-LABEL: func.func @the_library_reads_them
// CHECK-NOT: dt.copy
// CHECK: return
func.func @the_library_reads_them(%x: tensor<6x3xf32>, %y: tensor<3x2xf32>) -> tensor<2x2xf32> {
  %odd = dt.slice %x at [1, 0] : tensor<6x3xf32> -> tensor<2x3xf32>
  %a = dt.contract "ab,bc->ac" %odd, %y : tensor<2x3xf32>, tensor<3x2xf32> -> tensor<2x2xf32>
  return %a : tensor<2x2xf32>
}

// But not what an epilogue reads: a product's factors may lie anywhere, the bias that begins at byte 4 may not.
// CHECK-LABEL: func.func @epilogues_read_whole_vectors
// CHECK: [[BIAS:%.*]] = dt.slice %arg2 at [1]
// CHECK: [[COPY:%.*]] = dt.copy [[BIAS]]
// CHECK-NOT: dt.copy
// CHECK: dt.product "ab,bc->ac" {{.*}} bias [[COPY]]
func.func @epilogues_read_whole_vectors(%x: tensor<6x3xf32>, %y: tensor<3x2xf32>, %b: tensor<3xf32>) -> tensor<2x2xf32> {
  %odd = dt.slice %x at [1, 0] : tensor<6x3xf32> -> tensor<2x3xf32>
  %bias = dt.slice %b at [1] : tensor<3xf32> -> tensor<2xf32>
  %a = dt.product "ab,bc->ac" %odd, %y bias %bias : tensor<2xf32> : tensor<2x3xf32>, tensor<3x2xf32> -> tensor<2x2xf32>
  return %a : tensor<2x2xf32>
}
}

// -----

module attributes {dt.target = "x86-64-v3"} {
dt.kernel @k(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %y = dt.exp %x : tensor<2x3xf32>
  dt.yield %y : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @processors_read_them
// CHECK-NOT: dt.copy
// CHECK: return
func.func @processors_read_them(%x: tensor<6x3xf32>) -> tensor<2x3xf32> {
  %odd = dt.slice %x at [1, 0] : tensor<6x3xf32> -> tensor<2x3xf32>
  %a = dt.launch @k(%odd) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %a : tensor<2x3xf32>
}
}
