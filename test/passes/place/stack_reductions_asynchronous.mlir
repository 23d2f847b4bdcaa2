// Where each stage of a pipeline updates by itself, the update's numbers of different layers travel by themselves: the
// layers may be in different stages. Other functions are as ever.

// RUN: dtc-opt %s --pass-pipeline='builtin.module(func.func(dt-stack-reductions))' | FileCheck %s

module attributes {dt.mesh = #dt.mesh<"pp" = 2, "tp" = 2>, dt.asynchronous} {
  // CHECK-LABEL: @update
  // CHECK-DAG: dt.all_reduce sum %{{.*}} : tensor<2xf32> -> tensor<2xf32>
  // CHECK-DAG: dt.all_reduce sum %arg2 {{.*}} : tensor<f32> -> tensor<f32>
  // CHECK-DAG: dt.all_reduce sum %arg3 {{.*}} : tensor<f32> -> tensor<f32>
  // CHECK-DAG: dt.all_reduce sum %arg4 {{.*}} : tensor<f32> -> tensor<f32>
  // CHECK-NOT: dt.all_reduce
  func.func @update(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<f32>, %d: tensor<f32>, %e: tensor<f32>)
      -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) {
    %0 = dt.all_reduce sum %a over [#dt.axis_ref<"tp", 1, 0>] {dt.layer = #dt.layer<"h"[0]>} : tensor<f32> -> tensor<f32>
    %1 = dt.all_reduce sum %b over [#dt.axis_ref<"tp", 1, 0>] {dt.layer = #dt.layer<"h"[0]>} : tensor<f32> -> tensor<f32>
    %2 = dt.all_reduce sum %c over [#dt.axis_ref<"tp", 1, 0>] {dt.layer = #dt.layer<"h"[1]>} : tensor<f32> -> tensor<f32>
    %3 = dt.all_reduce sum %d over [#dt.axis_ref<"tp", 1, 0>] : tensor<f32> -> tensor<f32> loc("wte.weight")
    %4 = dt.all_reduce sum %e over [#dt.axis_ref<"tp", 1, 0>] : tensor<f32> -> tensor<f32> loc("lm_head.weight")
    return %0, %1, %2, %3, %4 : tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>
  }

  // CHECK-LABEL: @reduce
  // CHECK: dt.all_reduce sum %{{.*}} : tensor<2xf32> -> tensor<2xf32>
  // CHECK-NOT: dt.all_reduce
  func.func @reduce(%a: tensor<f32>, %b: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
    %0 = dt.all_reduce sum %a over [#dt.axis_ref<"tp", 1, 0>] {dt.layer = #dt.layer<"h"[0]>} : tensor<f32> -> tensor<f32>
    %1 = dt.all_reduce sum %b over [#dt.axis_ref<"tp", 1, 0>] {dt.layer = #dt.layer<"h"[1]>} : tensor<f32> -> tensor<f32>
    return %0, %1 : tensor<f32>, tensor<f32>
  }
}
