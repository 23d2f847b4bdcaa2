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

// A kernel reads and writes as many streams as the target can follow, 20 on a processor; 24 operands and a sum are more.
// CHECK-LABEL: func.func @more_streams_than_a_kernel_may_have
func.func @more_streams_than_a_kernel_may_have(%a0: tensor<64xf32>, %a1: tensor<64xf32>, %a2: tensor<64xf32>, %a3: tensor<64xf32>, %a4: tensor<64xf32>, %a5: tensor<64xf32>, %a6: tensor<64xf32>, %a7: tensor<64xf32>, %a8: tensor<64xf32>, %a9: tensor<64xf32>, %a10: tensor<64xf32>, %a11: tensor<64xf32>, %a12: tensor<64xf32>, %a13: tensor<64xf32>, %a14: tensor<64xf32>, %a15: tensor<64xf32>, %a16: tensor<64xf32>, %a17: tensor<64xf32>, %a18: tensor<64xf32>, %a19: tensor<64xf32>, %a20: tensor<64xf32>, %a21: tensor<64xf32>, %a22: tensor<64xf32>, %a23: tensor<64xf32>) -> tensor<64xf32> {
  // CHECK-COUNT-2: dt.launch
  // CHECK-NOT: dt.launch
  // CHECK: return
  %s1 = dt.add %a0, %a1 : tensor<64xf32>
  %s2 = dt.add %s1, %a2 : tensor<64xf32>
  %s3 = dt.add %s2, %a3 : tensor<64xf32>
  %s4 = dt.add %s3, %a4 : tensor<64xf32>
  %s5 = dt.add %s4, %a5 : tensor<64xf32>
  %s6 = dt.add %s5, %a6 : tensor<64xf32>
  %s7 = dt.add %s6, %a7 : tensor<64xf32>
  %s8 = dt.add %s7, %a8 : tensor<64xf32>
  %s9 = dt.add %s8, %a9 : tensor<64xf32>
  %s10 = dt.add %s9, %a10 : tensor<64xf32>
  %s11 = dt.add %s10, %a11 : tensor<64xf32>
  %s12 = dt.add %s11, %a12 : tensor<64xf32>
  %s13 = dt.add %s12, %a13 : tensor<64xf32>
  %s14 = dt.add %s13, %a14 : tensor<64xf32>
  %s15 = dt.add %s14, %a15 : tensor<64xf32>
  %s16 = dt.add %s15, %a16 : tensor<64xf32>
  %s17 = dt.add %s16, %a17 : tensor<64xf32>
  %s18 = dt.add %s17, %a18 : tensor<64xf32>
  %s19 = dt.add %s18, %a19 : tensor<64xf32>
  %s20 = dt.add %s19, %a20 : tensor<64xf32>
  %s21 = dt.add %s20, %a21 : tensor<64xf32>
  %s22 = dt.add %s21, %a22 : tensor<64xf32>
  %s23 = dt.add %s22, %a23 : tensor<64xf32>
  return %s23 : tensor<64xf32>
}

// What reads a barrier is made again, late: it waits for nothing beside it, and shares no kernel even with what reads the
// same.
// CHECK-LABEL: func.func @what_is_made_again_stands_alone
func.func @what_is_made_again_stands_alone(%x: tensor<8x64xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  // CHECK: %[[B:.*]] = dt.barrier %arg0
  // CHECK-COUNT-2: dt.launch @{{.*}}(%[[B]]) : (tensor<8x64xf32>) -> tensor<8xf32>
  // CHECK-NEXT: return
  %b = dt.barrier %x : tensor<8x64xf32>
  %sum = dt.reduce sum %b over [1] : tensor<8x64xf32> -> tensor<8xf32>
  %max = dt.reduce max %b over [1] : tensor<8x64xf32> -> tensor<8xf32>
  return %sum, %max : tensor<8xf32>, tensor<8xf32>
}

// Parts of a batch run at different times: they share no kernel, though both read the same.
// CHECK-LABEL: func.func @parts_stand_apart
func.func @parts_stand_apart(%x: tensor<8x64xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  // CHECK: dt.launch @{{.*}}(%arg0) {{.*}}dt.part = 0{{.*}} -> (tensor<8xf32>, tensor<8xf32>)
  // CHECK-NEXT: dt.launch @{{.*}}(%arg0) {{.*}}dt.part = 1{{.*}} -> tensor<8xf32>
  // CHECK-NEXT: return
  %sum = dt.reduce sum %x over [1] {dt.part = 0 : i64} : tensor<8x64xf32> -> tensor<8xf32>
  %max = dt.reduce max %x over [1] {dt.part = 1 : i64} : tensor<8x64xf32> -> tensor<8xf32>
  %most = dt.reduce max %x over [1] {dt.part = 0 : i64} : tensor<8x64xf32> -> tensor<8xf32>
  return %sum, %max, %most : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// The operands of a product must be in memory: the kernel before it does not reach across.
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
