// Scalars that are summed over the same ranks travel together.

// RUN: dtc-opt %s --pass-pipeline='builtin.module(func.func(dt-stack-reductions))' | FileCheck %s

module attributes {dt.mesh = #dt.mesh<"dp" = 2, "tp" = 2>} {
  // CHECK-LABEL: @equal_axes_share_one_reduction
  func.func @equal_axes_share_one_reduction(%a: tensor<f32>, %b: tensor<1xf32>, %c: tensor<f32>)
      -> (tensor<f32>, tensor<1xf32>, tensor<f32>) {
    // CHECK-DAG: dt.all_reduce sum %{{.*}} over [#dt.axis_ref<"dp", 1, 0>] {{.*}} : tensor<2xf32> -> tensor<2xf32>
    // CHECK-DAG: dt.all_reduce sum %arg2 over [#dt.axis_ref<"tp", 1, 0>] : tensor<f32> -> tensor<f32>
    // CHECK-NOT: dt.all_reduce
    %0 = dt.all_reduce sum %a over [#dt.axis_ref<"dp", 1, 0>] : tensor<f32> -> tensor<f32>
    %1 = dt.all_reduce sum %b over [#dt.axis_ref<"dp", 1, 0>] : tensor<1xf32> -> tensor<1xf32>
    %2 = dt.all_reduce sum %c over [#dt.axis_ref<"tp", 1, 0>] : tensor<f32> -> tensor<f32>
    return %0, %1, %2 : tensor<f32>, tensor<1xf32>, tensor<f32>
  }

  // The second sum needs the first.
  // CHECK-LABEL: @dependent_reductions_stay_apart
  func.func @dependent_reductions_stay_apart(%a: tensor<f32>) -> tensor<f32> {
    // CHECK-COUNT-2: dt.all_reduce sum {{.*}} : tensor<f32> -> tensor<f32>
    %0 = dt.all_reduce sum %a over [#dt.axis_ref<"dp", 1, 0>] : tensor<f32> -> tensor<f32>
    %1 = dt.exp %0 : tensor<f32>
    %2 = dt.all_reduce sum %1 over [#dt.axis_ref<"dp", 1, 0>] : tensor<f32> -> tensor<f32>
    return %2 : tensor<f32>
  }

  // CHECK-LABEL: @kinds_stay_apart
  func.func @kinds_stay_apart(%a: tensor<f32>, %b: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
    // CHECK: dt.all_reduce sum %arg0 over
    // CHECK-NEXT: dt.all_reduce max %arg1 over
    %0 = dt.all_reduce sum %a over [#dt.axis_ref<"dp", 1, 0>] : tensor<f32> -> tensor<f32>
    %1 = dt.all_reduce max %b over [#dt.axis_ref<"dp", 1, 0>] : tensor<f32> -> tensor<f32>
    return %0, %1 : tensor<f32>, tensor<f32>
  }
}
