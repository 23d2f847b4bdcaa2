// A value that is partial in two ways is resolved by a collective for each, the sums before the maxima; and what may be
// handed on partial is what its port says.

// RUN: dtc-opt %s --dt-propagate --dt-partition 2>/dev/null | FileCheck %s

module attributes {dt.mesh = #dt.mesh<"dp" = 2, "tp" = 2>} {
  // CHECK-LABEL: @each_kind_has_its_collective
  func.func @each_kind_has_its_collective(
      // CHECK-SAME: partial = sum {"tp"}, max {"dp"}
      %s: tensor<4xf32> {dt.port = #dt.port<share "s", partial, placed = <[{}], partial = max {"dp"}, sum {"tp"}>>})
      -> (tensor<4xf32> {dt.port = #dt.port<output "y", placed = <[{}]>>}) {
    // CHECK: %[[SUM:.*]] = dt.all_reduce sum %arg0 over [#dt.axis_ref<"tp", 1, 0>]
    // CHECK-NEXT: %[[MAX:.*]] = dt.all_reduce max %[[SUM]] over [#dt.axis_ref<"dp", 1, 0>]
    // CHECK-NEXT: dt.exp %[[MAX]]
    %0 = dt.exp %s : tensor<4xf32>
    return %0 : tensor<4xf32>
  }

  // A piece of the maxima is all that is wanted of them; sums are whole before.
  // CHECK-LABEL: @a_split_is_made_of_the_last_kind
  func.func @a_split_is_made_of_the_last_kind(
      %s: tensor<4xf32> {dt.port = #dt.port<share "t", partial, placed = <[{}], partial = max {"dp"}, sum {"tp"}>>})
      -> (tensor<4xf32> {dt.port = #dt.port<output "z", placed = <[{"dp"}]>>}) {
    // CHECK: %[[SUM:.*]] = dt.all_reduce sum %arg0
    // CHECK-NEXT: %[[MAX:.*]] = dt.reduce_scatter max %[[SUM]]
    %0 = dt.exp %s : tensor<4xf32>
    return %0 : tensor<4xf32>
  }

  // Said to be partial, a result stays as it is found; else it is whole.
  // CHECK-LABEL: @partial_is_said
  // CHECK-SAME: -> (tensor<4x6xf32> {dt.port = #dt.port<gradient "w", partial, placed = <[{}, {}], partial = sum {"tp"}>
  // CHECK-SAME: tensor<4x6xf32> {dt.port = #dt.port<gradient "v", placed = <[{}, {}]>
  func.func @partial_is_said(
      %x: tensor<4x8xf32> {dt.port = #dt.port<input "x", placed = <[{}, {"tp"}]>>},
      %y: tensor<8x6xf32> {dt.port = #dt.port<input "y", placed = <[{"tp"}, {}]>>})
      -> (tensor<4x6xf32> {dt.port = #dt.port<gradient "w", partial>}, tensor<4x6xf32> {dt.port = #dt.port<gradient "v">}) {
    // CHECK: %[[TERM:.*]] = dt.contract
    // CHECK: %[[OTHER:.*]] = dt.contract
    // CHECK: %[[WHOLE:.*]] = dt.all_reduce sum %[[OTHER]]
    // CHECK-NEXT: return %[[TERM]], %[[WHOLE]]
    %0 = dt.contract "ab,bc->ac" %x, %y : tensor<4x8xf32>, tensor<8x6xf32> -> tensor<4x6xf32>
    %1 = dt.contract "ab,bc->ac" %x, %y : tensor<4x8xf32>, tensor<8x6xf32> -> tensor<4x6xf32>
    return %0, %1 : tensor<4x6xf32>, tensor<4x6xf32>
  }
}
