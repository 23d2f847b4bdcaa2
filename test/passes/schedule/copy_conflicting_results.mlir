// RUN: dtc-opt %s --dt-copy-conflicting-results | FileCheck %s

// A kernel may write its result where the result is stored.
// CHECK-LABEL: func.func @straight
func.func @straight(%x: tensor<8xf32> {dt.port = #dt.port<input "x">})
    -> (tensor<8x8xf32> {dt.port = #dt.port<output "y">}) {
  // CHECK-NOT: dt.copy
  %y = dt.contract "a,b->ab" %x, %x : tensor<8xf32>, tensor<8xf32> -> tensor<8x8xf32>
  return %y : tensor<8x8xf32>
}

// One value cannot be two tensors.
// CHECK-LABEL: func.func @returned_twice
func.func @returned_twice(%x: tensor<8xf32> {dt.port = #dt.port<input "x">})
    -> (tensor<8x8xf32> {dt.port = #dt.port<output "y">}, tensor<8x8xf32> {dt.port = #dt.port<output "z">}) {
  // CHECK: %[[Y:.*]] = dt.contract
  // CHECK: %[[Z:.*]] = dt.copy %[[Y]]
  // CHECK: return %[[Y]], %[[Z]]
  %y = dt.contract "a,b->ab" %x, %x : tensor<8xf32>, tensor<8xf32> -> tensor<8x8xf32>
  return %y, %y : tensor<8x8xf32>, tensor<8x8xf32>
}

// The parameter's old contents are read after the new ones are known.
// CHECK-LABEL: func.func @old_contents_still_read
func.func @old_contents_still_read(%p: tensor<8x8xf32> {dt.port = #dt.port<parameter "p">})
    -> (tensor<8x8xf32> {dt.port = #dt.port<parameter "p">}, tensor<8x8xf32> {dt.port = #dt.port<output "y">}) {
  // CHECK: %[[NEW:.*]] = dt.contract
  // CHECK: %[[Y:.*]] = dt.contract
  // CHECK: %[[COPY:.*]] = dt.copy %[[NEW]]
  // CHECK: return %[[COPY]], %[[Y]]
  %new = dt.contract "ab,bc->ac" %p, %p : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %y = dt.contract "ab,bc->ac" %p, %new : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  return %new, %y : tensor<8x8xf32>, tensor<8x8xf32>
}

// The product reads the parameter while it writes its result.
// CHECK-LABEL: func.func @old_contents_read_meanwhile
func.func @old_contents_read_meanwhile(%p: tensor<8x8xf32> {dt.port = #dt.port<parameter "p">})
    -> (tensor<8x8xf32> {dt.port = #dt.port<parameter "p">}) {
  // CHECK: %[[NEW:.*]] = dt.contract
  // CHECK: %[[COPY:.*]] = dt.copy %[[NEW]]
  // CHECK: return %[[COPY]]
  %new = dt.contract "ab,bc->ac" %p, %p : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  return %new : tensor<8x8xf32>
}

// What is a part of something, wherever it begins, is no tensor of its own.
// CHECK-LABEL: func.func @parts
func.func @parts(%x: tensor<8xf32> {dt.port = #dt.port<input "x">})
    -> (tensor<3x8xf32> {dt.port = #dt.port<output "front">}, tensor<3x8xf32> {dt.port = #dt.port<output "back">}) {
  // CHECK-DAG: %[[FRONT:.*]] = dt.copy
  // CHECK-DAG: %[[BACK:.*]] = dt.copy
  // CHECK: return %[[FRONT]], %[[BACK]]
  %y = dt.contract "a,b->ab" %x, %x : tensor<8xf32>, tensor<8xf32> -> tensor<8x8xf32>
  %z = dt.contract "a,b->ab" %x, %x : tensor<8xf32>, tensor<8xf32> -> tensor<8x8xf32>
  %front = dt.slice %y at [0, 0] : tensor<8x8xf32> -> tensor<3x8xf32>
  %back = dt.slice %z at [5, 0] : tensor<8x8xf32> -> tensor<3x8xf32>
  return %front, %back : tensor<3x8xf32>, tensor<3x8xf32>
}
