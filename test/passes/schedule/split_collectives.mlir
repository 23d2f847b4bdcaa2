// RUN: dtc-opt %s --dt-split-collectives | FileCheck %s

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

// A value that is only returned is waited for at the end.
// CHECK-LABEL: @waits_before_return
func.func @waits_before_return(%x: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK: dt.all_reduce
  // CHECK-NEXT: %[[V:.*]] = dt.wait
  // CHECK-NEXT: return %[[V]]
  %sum = dt.all_reduce sum %x over [#dt.axis_ref<"dp", 1, 0>] : tensor<8xf32> -> tensor<8xf32>
  return %sum : tensor<8xf32>
}

}
