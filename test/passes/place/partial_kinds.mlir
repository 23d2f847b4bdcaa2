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

  // What is added to an argument that may be partial is not reduced before, even where it is made larger on the way; what is
  // added to another is.
  // CHECK-LABEL: @terms_of_an_accumulator_stay_partial
  func.func @terms_of_an_accumulator_stay_partial(
      %x: tensor<8xf32> {dt.port = #dt.port<input "x", placed = <[{"tp"}]>>},
      %y: tensor<8x6xf32> {dt.port = #dt.port<input "y", placed = <[{"tp"}, {}]>>},
      %w: tensor<4x6xf32> {dt.port = #dt.port<gradient "w", partial>},
      %u: tensor<4x6xf32> {dt.port = #dt.port<input "u", placed = <[{}, {}]>>})
      -> (tensor<4x6xf32> {dt.port = #dt.port<gradient "w", partial>}, tensor<4x6xf32> {dt.port = #dt.port<output "o", placed = <[{}, {}]>>}) {
    // CHECK-NOT: dt.all_reduce
    // CHECK: dt.add %arg2
    // CHECK: dt.all_reduce
    // CHECK: dt.add %arg3
    %0 = dt.contract "b,bc->c" %x, %y : tensor<8xf32>, tensor<8x6xf32> -> tensor<6xf32>
    %1 = dt.broadcast %0 dims [1] : tensor<6xf32> -> tensor<4x6xf32>
    %2 = dt.add %w, %1 : tensor<4x6xf32>
    %3 = dt.contract "b,bc->c" %x, %y : tensor<8xf32>, tensor<8x6xf32> -> tensor<6xf32>
    %4 = dt.broadcast %3 dims [1] : tensor<6xf32> -> tensor<4x6xf32>
    %5 = dt.add %u, %4 : tensor<4x6xf32>
    return %2, %5 : tensor<4x6xf32>, tensor<4x6xf32>
  }
}
