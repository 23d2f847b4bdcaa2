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

  // What lies side by side in a vector is taken there as one piece, and no other reader misses its number.
  // CHECK-LABEL: @runs_stay_together
  func.func @runs_stay_together(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<f32>, %x: tensor<f32>)
      -> (tensor<4xf32>, tensor<f32>) {
    // CHECK: %[[ALL:.*]] = dt.all_reduce {{.*}} : tensor<3xf32> -> tensor<3xf32>
    // CHECK-NEXT: %[[AB:.*]] = dt.slice %[[ALL]] at [0] : tensor<3xf32> -> tensor<2xf32>
    // CHECK-NEXT: %[[C:.*]] = dt.slice %[[ALL]] at [2] : tensor<3xf32> -> tensor<1xf32>
    // CHECK-NEXT: %[[B:.*]] = dt.slice %[[ALL]] at [1] : tensor<3xf32> -> tensor<1xf32>
    // CHECK-NEXT: %[[LONE:.*]] = dt.reshape %[[B]] : tensor<1xf32> -> tensor<f32>
    // CHECK-NEXT: %[[VECTOR:.*]] = dt.concat %[[AB]], %arg3, %[[C]] along 0
    // CHECK-NEXT: return %[[VECTOR]], %[[LONE]]
    %0 = dt.all_reduce sum %a over [#dt.axis_ref<"dp", 1, 0>] : tensor<f32> -> tensor<f32>
    %1 = dt.all_reduce sum %b over [#dt.axis_ref<"dp", 1, 0>] : tensor<f32> -> tensor<f32>
    %2 = dt.all_reduce sum %c over [#dt.axis_ref<"dp", 1, 0>] : tensor<f32> -> tensor<f32>
    %3 = dt.concat %0, %1, %x, %2 along 0 : tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32> -> tensor<4xf32>
    return %3, %1 : tensor<4xf32>, tensor<f32>
  }

  // CHECK-LABEL: @another_order_is_no_run
  func.func @another_order_is_no_run(%a: tensor<f32>, %b: tensor<f32>) -> tensor<2xf32> {
    // CHECK: %[[ALL:.*]] = dt.all_reduce {{.*}} : tensor<2xf32> -> tensor<2xf32>
    // CHECK-NEXT: %[[B:.*]] = dt.slice %[[ALL]] at [1] : tensor<2xf32> -> tensor<1xf32>
    // CHECK-NEXT: %[[A:.*]] = dt.slice %[[ALL]] at [0] : tensor<2xf32> -> tensor<1xf32>
    // CHECK-NEXT: dt.concat %[[B]], %[[A]] along 0
    %0 = dt.all_reduce sum %a over [#dt.axis_ref<"dp", 1, 0>] : tensor<f32> -> tensor<f32>
    %1 = dt.all_reduce sum %b over [#dt.axis_ref<"dp", 1, 0>] : tensor<f32> -> tensor<f32>
    %2 = dt.concat %1, %0 along 0 : tensor<f32>, tensor<f32> -> tensor<2xf32>
    return %2 : tensor<2xf32>
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
