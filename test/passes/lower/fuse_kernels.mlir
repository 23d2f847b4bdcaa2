// RUN: dtc-opt %s --dt-fuse-kernels | FileCheck %s

// A chain with its broadcast bias is one kernel.
// CHECK-LABEL: func.func @chain
func.func @chain(%x: tensor<8x64xf32>, %b: tensor<64xf32>) -> tensor<8x64xf32> {
  // CHECK: %[[Y:.*]] = dt.launch @add_gelu_0(%arg0, %arg1)
  // CHECK-NEXT: return %[[Y]]
  %bias = dt.broadcast %b dims [1] : tensor<64xf32> -> tensor<8x64xf32>
  %sum = dt.add %x, %bias : tensor<8x64xf32>
  %y = dt.gelu %sum tanh : tensor<8x64xf32>
  return %y : tensor<8x64xf32>
}

// Equal bodies are one kernel.
// CHECK-LABEL: func.func @same_chain
func.func @same_chain(%x: tensor<8x64xf32>, %b: tensor<64xf32>) -> tensor<8x64xf32> {
  // CHECK: dt.launch @add_gelu_0(
  %bias = dt.broadcast %b dims [1] : tensor<64xf32> -> tensor<8x64xf32>
  %sum = dt.add %x, %bias : tensor<8x64xf32>
  %y = dt.gelu %sum tanh : tensor<8x64xf32>
  return %y : tensor<8x64xf32>
}

// A value that reads one large tensor is computed by each kernel that needs it, never stored.
// CHECK-LABEL: func.func @light_values_are_recomputed
func.func @light_values_are_recomputed(%x: tensor<8x64xf32>, %w: tensor<64x64xf32>) -> (tensor<8x64xf32>, tensor<8x64xf32>) {
  // CHECK: %[[A:.*]] = dt.launch @{{.*}}(%arg0) : (tensor<8x64xf32>) -> tensor<8x64xf32>
  // CHECK: %[[P:.*]] = dt.contract "ab,bc->ac" %[[A]], %arg1
  // CHECK: %[[R:.*]] = dt.launch @{{.*}}(%arg0, %[[P]])
  // CHECK: return %[[A]], %[[R]]
  %e = dt.exp %x : tensor<8x64xf32>
  %a = dt.neg %e : tensor<8x64xf32>
  %p = dt.contract "ab,bc->ac" %a, %w : tensor<8x64xf32>, tensor<64x64xf32> -> tensor<8x64xf32>
  %r = dt.mul %e, %p : tensor<8x64xf32>
  return %a, %r : tensor<8x64xf32>, tensor<8x64xf32>
}

// A sum over rows broadcast back into the row stays in one kernel.
// CHECK-LABEL: func.func @row_reduction
func.func @row_reduction(%x: tensor<8x64xf32>) -> tensor<8x64xf32> {
  // CHECK: dt.launch
  // CHECK-NOT: dt.launch
  // CHECK: return
  %sum = dt.reduce sum %x over [1] : tensor<8x64xf32> -> tensor<8xf32>
  %wide = dt.broadcast %sum dims [0] : tensor<8xf32> -> tensor<8x64xf32>
  %y = dt.div %x, %wide : tensor<8x64xf32>
  return %y : tensor<8x64xf32>
}

// What a product needs must be in memory: the kernel before it does not reach across.
// CHECK-LABEL: func.func @products_separate_kernels
func.func @products_separate_kernels(%x: tensor<8x64xf32>, %w: tensor<64x64xf32>) -> tensor<8x64xf32> {
  // CHECK: dt.launch
  // CHECK: dt.contract
  // CHECK: dt.launch
  %a = dt.exp %x : tensor<8x64xf32>
  %p = dt.contract "ab,bc->ac" %a, %w : tensor<8x64xf32>, tensor<64x64xf32> -> tensor<8x64xf32>
  %y = dt.add %p, %x : tensor<8x64xf32>
  return %y : tensor<8x64xf32>
}

// Draws at other sites share a kernel: the launches say the sites.
// CHECK-LABEL: func.func @equal_layers_share_kernels
func.func @equal_layers_share_kernels(%x: tensor<8xf32>, %key: tensor<4xi32>) -> tensor<8xf32> {
  // CHECK: dt.launch @[[K:.*]](%arg0, %arg1) sites [7]
  // CHECK: dt.launch @[[K]](%{{.*}}, %arg1) sites [9]
  %u = dt.random %key site 7 of [8] : tensor<4xi32> -> tensor<8xf32>
  %a = dt.mul %x, %u : tensor<8xf32>
  %p = dt.contract "a,a->a" %a, %a : tensor<8xf32>, tensor<8xf32> -> tensor<8xf32>
  %v = dt.random %key site 9 of [8] : tensor<4xi32> -> tensor<8xf32>
  %b = dt.mul %p, %v : tensor<8xf32>
  return %b : tensor<8xf32>
}

// Draws at one site stay draws at one site.
// CHECK-LABEL: func.func @each_site_is_said_once
func.func @each_site_is_said_once(%key: tensor<4xi32>) -> tensor<8xf32> {
  // CHECK: dt.launch @[[TWO:.*]](%arg0) sites [3, 7]
  %u = dt.random %key site 3 of [8] : tensor<4xi32> -> tensor<8xf32>
  %v = dt.random %key site 7 of [8] : tensor<4xi32> -> tensor<8xf32>
  %w = dt.random %key site 3 of [8] : tensor<4xi32> -> tensor<8xf32>
  %a = dt.sub %u, %v : tensor<8xf32>
  %b = dt.mul %a, %w : tensor<8xf32>
  return %b : tensor<8xf32>
}
// CHECK: dt.kernel @[[K]](
// CHECK: dt.random %{{.*}} site 0 of
// CHECK: dt.kernel @[[TWO]](
// CHECK: dt.random %{{.*}} site 0 of
// CHECK: dt.random %{{.*}} site 1 of
// CHECK: dt.random %{{.*}} site 0 of
