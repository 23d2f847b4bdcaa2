// A value has one piece in each placement that is asked for, made once; what fills its padding; why it is moved.

// RUN: dtc-opt %s --dt-propagate --dt-partition 2>/dev/null | FileCheck %s

module attributes {dt.mesh = #dt.mesh<"tp" = 2>} {
  // CHECK-LABEL: @two_readers_share_what_is_gathered
  func.func @two_readers_share_what_is_gathered(
      %x: tensor<4x8xf32> {dt.port = #dt.port<input "x", placed = <[{"tp"}, {}]>>},
      %v: tensor<8x6xf32> {dt.port = #dt.port<parameter "v", placed = <[{}, {"tp"}]>>},
      %w: tensor<8x6xf32> {dt.port = #dt.port<parameter "w", placed = <[{}, {"tp"}]>>})
      -> (tensor<4x6xf32> {dt.port = #dt.port<output "first">}, tensor<4x6xf32> {dt.port = #dt.port<output "second">}) {
    // CHECK-NEXT: %[[WHOLE:.*]] = dt.all_gather %arg0 {{.*}}reason = "split over tp along dimension 0, needed {{.*}} by dt.contract
    // CHECK-NEXT: dt.contract "ab,bc->ac" %[[WHOLE]], %arg1
    // CHECK-NEXT: dt.contract "ab,bc->ac" %[[WHOLE]], %arg2
    %0 = dt.contract "ab,bc->ac" %x, %v : tensor<4x8xf32>, tensor<8x6xf32> -> tensor<4x6xf32>
    %1 = dt.contract "ab,bc->ac" %x, %w : tensor<4x8xf32>, tensor<8x6xf32> -> tensor<4x6xf32>
    return %0, %1 : tensor<4x6xf32>, tensor<4x6xf32>
  }

  // What has no operands is built in each placement, and never moved.
  // CHECK-LABEL: @constants_and_indices_are_built_in_their_place
  func.func @constants_and_indices_are_built_in_their_place(
      %x: tensor<6xf32> {dt.port = #dt.port<input "x", placed = <[{"tp"}]>>},
      %y: tensor<6xf32> {dt.port = #dt.port<input "y", placed = <[{}]>>})
      -> (tensor<6xf32> {dt.port = #dt.port<output "u">}, tensor<6xf32> {dt.port = #dt.port<output "v">}) {
    // CHECK-DAG: dt.iota 0 sharded <[{"tp"}]> : tensor<3xi32>
    // CHECK-DAG: dt.constant dense<2.000000e+00> : tensor<3xf32>
    // CHECK-DAG: dt.constant dense<2.000000e+00> : tensor<6xf32>
    // CHECK-NOT: dt.shard_slice
    // CHECK: return
    %two = dt.constant dense<2.0> : tensor<6xf32>
    %index = dt.iota 0 : tensor<6xi32>
    %number = dt.convert %index : tensor<6xi32> -> tensor<6xf32>
    %0 = dt.mul %x, %two : tensor<6xf32>
    %1 = dt.mul %y, %two : tensor<6xf32>
    %2 = dt.mul %0, %number : tensor<6xf32>
    return %2, %1 : tensor<6xf32>, tensor<6xf32>
  }

  // A maximum fills the padding for itself; zeros are left for all later readers.
  // CHECK-LABEL: @zeros_in_the_padding_are_shared
  func.func @zeros_in_the_padding_are_shared(%x: tensor<7xf32> {dt.port = #dt.port<input "x", placed = <[{"tp"}]>>})
      -> (tensor<f32> {dt.port = #dt.port<output "maximum", placed = <[]>>},
          tensor<f32> {dt.port = #dt.port<output "sum", placed = <[]>>},
          tensor<f32> {dt.port = #dt.port<output "squares", placed = <[]>>}) {
    // CHECK: %[[LEAST:.*]] = dt.constant dense<0xFF800000> : tensor<4xf32>
    // CHECK: dt.constant dense<7> : tensor<4xi32>
    // CHECK: %[[MASKED:.*]] = dt.select %{{.*}}, %arg0, %[[LEAST]]
    // CHECK-NEXT: dt.reduce max %[[MASKED]]
    // CHECK-NEXT: %[[ZERO:.*]] = dt.constant dense<0.000000e+00> : tensor<4xf32>
    // CHECK: %[[CLEARED:.*]] = dt.select %{{.*}}, %arg0, %[[ZERO]]
    // CHECK-NEXT: dt.reduce sum %[[CLEARED]]
    // CHECK-NEXT: dt.contract "a,a->" %[[CLEARED]], %[[CLEARED]]
    // CHECK-NOT: dt.select
    // CHECK: return
    %0 = dt.reduce max %x over [0] : tensor<7xf32> -> tensor<f32>
    %1 = dt.reduce sum %x over [0] : tensor<7xf32> -> tensor<f32>
    %2 = dt.contract "a,a->" %x, %x : tensor<7xf32>, tensor<7xf32> -> tensor<f32>
    return %0, %1, %2 : tensor<f32>, tensor<f32>, tensor<f32>
  }

  // Integers have no infinity: theirs is the least that the type has.
  // CHECK-LABEL: @the_least_integer_is_never_the_maximum
  func.func @the_least_integer_is_never_the_maximum(%x: tensor<7xi32> {dt.port = #dt.port<input "x", placed = <[{"tp"}]>>})
      -> (tensor<i32> {dt.port = #dt.port<output "y", placed = <[]>>}) {
    // CHECK: %[[LEAST:.*]] = dt.constant dense<-2147483648> : tensor<4xi32>
    // CHECK: %[[MASKED:.*]] = dt.select %{{.*}}, %arg0, %[[LEAST]]
    // CHECK-NEXT: dt.reduce max %[[MASKED]]
    %0 = dt.reduce max %x over [0] : tensor<7xi32> -> tensor<i32>
    return %0 : tensor<i32>
  }
}
