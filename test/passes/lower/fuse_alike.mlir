// RUN: dtc-opt %s --dt-fuse-kernels | FileCheck %s

// Whether operations share a kernel is asked once for equal groups. These pairs are alike, and not equal.

// CHECK-LABEL: func.func @rows_of_one_length
func.func @rows_of_one_length(%x: tensor<8x64xf32>, %z: tensor<8x64xf32>) -> tensor<8x64xf32> {
  // CHECK: dt.launch
  // CHECK-NOT: dt.launch
  // CHECK: return
  %u = dt.reduce max %x over [1] : tensor<8x64xf32> -> tensor<8xf32>
  %v = dt.broadcast %u dims [0] : tensor<8xf32> -> tensor<8x64xf32>
  %y = dt.sub %z, %v : tensor<8x64xf32>
  return %y : tensor<8x64xf32>
}

// Types tell them apart.
// CHECK-LABEL: func.func @rows_of_two_lengths
func.func @rows_of_two_lengths(%x: tensor<8x64xf32>, %z: tensor<8x32xf32>) -> tensor<8x32xf32> {
  // CHECK: dt.launch @{{.*}}(%arg0) : (tensor<8x64xf32>) -> tensor<8xf32>
  // CHECK: dt.launch @{{.*}}(%arg1,
  // CHECK: return
  %u = dt.reduce max %x over [1] : tensor<8x64xf32> -> tensor<8xf32>
  %v = dt.broadcast %u dims [0] : tensor<8xf32> -> tensor<8x32xf32>
  %y = dt.sub %z, %v : tensor<8x32xf32>
  return %y : tensor<8x32xf32>
}

// CHECK-LABEL: func.func @rows_twice
func.func @rows_twice(%x: tensor<64x64xf32>, %z: tensor<64x64xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
  // CHECK: dt.launch
  // CHECK-NOT: dt.launch
  // CHECK: return
  %q = dt.add %x, %z : tensor<64x64xf32>
  %u = dt.reduce max %q over [1] : tensor<64x64xf32> -> tensor<64xf32>
  %v = dt.reduce sum %q over [1] : tensor<64x64xf32> -> tensor<64xf32>
  return %u, %v : tensor<64xf32>, tensor<64xf32>
}

// Attributes tell them apart.
// CHECK-LABEL: func.func @rows_and_columns
func.func @rows_and_columns(%x: tensor<64x64xf32>, %z: tensor<64x64xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
  // CHECK: dt.launch
  // CHECK: dt.launch
  // CHECK: return
  %q = dt.add %x, %z : tensor<64x64xf32>
  %u = dt.reduce max %q over [1] : tensor<64x64xf32> -> tensor<64xf32>
  %v = dt.reduce sum %q over [0] : tensor<64x64xf32> -> tensor<64xf32>
  return %u, %v : tensor<64xf32>, tensor<64xf32>
}

// Kernels differ when different operations read each other.
// CHECK-LABEL: func.func @less_the_first
func.func @less_the_first(%x: tensor<8x64xf32>, %y: tensor<8x64xf32>) -> tensor<8x64xf32> {
  // CHECK: dt.launch @[[FIRST:.+]](%arg0, %arg1)
  %p = dt.mul %x, %y : tensor<8x64xf32>
  %r = dt.sub %p, %x : tensor<8x64xf32>
  return %r : tensor<8x64xf32>
}

// CHECK-LABEL: func.func @less_the_second
func.func @less_the_second(%x: tensor<8x64xf32>, %y: tensor<8x64xf32>) -> tensor<8x64xf32> {
  // CHECK-NOT: @[[FIRST]](
  // CHECK: return
  %p = dt.mul %x, %y : tensor<8x64xf32>
  %r = dt.sub %p, %y : tensor<8x64xf32>
  return %r : tensor<8x64xf32>
}
