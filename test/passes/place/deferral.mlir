// Which operations accept a partial sum as it is, and which wait until it is whole.

// RUN: dtc-opt %s --dt-propagate --dt-partition 2>/dev/null | FileCheck %s

module attributes {dt.mesh = #dt.mesh<"tp" = 2>} {
  // A zero is partial over any axes, so the sum passes the addition, and then the negation, before it is reduced.
  // CHECK-LABEL: @a_zero_is_added_before_the_reduction
  func.func @a_zero_is_added_before_the_reduction(
      %x: tensor<4x8xf32> {dt.port = #dt.port<input "x", placed = <[{}, {"tp"}]>>},
      %w: tensor<8x6xf32> {dt.port = #dt.port<parameter "w", placed = <[{"tp"}, {}]>>})
      -> (tensor<4x6xf32> {dt.port = #dt.port<output "y", placed = <[{}, {}]>>}) {
    // CHECK: %[[PARTIAL:.*]] = dt.contract
    // CHECK: %[[ADDED:.*]] = dt.add %[[PARTIAL]],
    // CHECK-NEXT: %[[NEGATED:.*]] = dt.neg %[[ADDED]]
    // CHECK-NEXT: dt.all_reduce sum %[[NEGATED]]
    %0 = dt.contract "ab,bc->ac" %x, %w : tensor<4x8xf32>, tensor<8x6xf32> -> tensor<4x6xf32>
    %zero = dt.constant dense<0.0> : tensor<4x6xf32>
    %1 = dt.add %0, %zero : tensor<4x6xf32>
    %2 = dt.neg %1 : tensor<4x6xf32>
    return %2 : tensor<4x6xf32>
  }

  // A one would be added on every rank.
  // CHECK-LABEL: @a_one_is_added_to_the_whole_sum
  func.func @a_one_is_added_to_the_whole_sum(
      %x: tensor<4x8xf32> {dt.port = #dt.port<input "x", placed = <[{}, {"tp"}]>>},
      %w: tensor<8x6xf32> {dt.port = #dt.port<parameter "w", placed = <[{"tp"}, {}]>>})
      -> (tensor<4x6xf32> {dt.port = #dt.port<output "y", placed = <[{}, {}]>>}) {
    // CHECK: %[[PARTIAL:.*]] = dt.contract
    // CHECK-NEXT: %[[WHOLE:.*]] = dt.all_reduce sum %[[PARTIAL]]
    // CHECK: dt.add %[[WHOLE]],
    %0 = dt.contract "ab,bc->ac" %x, %w : tensor<4x8xf32>, tensor<8x6xf32> -> tensor<4x6xf32>
    %one = dt.constant dense<1.0> : tensor<4x6xf32>
    %1 = dt.add %0, %one : tensor<4x6xf32>
    return %1 : tensor<4x6xf32>
  }

  // The rows' sums are fewer numbers than the rows.
  // CHECK-LABEL: @what_becomes_smaller_is_reduced_later
  func.func @what_becomes_smaller_is_reduced_later(
      %x: tensor<4x8xf32> {dt.port = #dt.port<input "x", placed = <[{}, {"tp"}]>>},
      %w: tensor<8x6xf32> {dt.port = #dt.port<parameter "w", placed = <[{"tp"}, {}]>>})
      -> (tensor<4xf32> {dt.port = #dt.port<output "y", placed = <[{}]>>}) {
    // CHECK: %[[PARTIAL:.*]] = dt.contract
    // CHECK-NEXT: %[[SUMS:.*]] = dt.reduce sum %[[PARTIAL]]
    // CHECK-NEXT: dt.all_reduce sum %[[SUMS]]
    %0 = dt.contract "ab,bc->ac" %x, %w : tensor<4x8xf32>, tensor<8x6xf32> -> tensor<4x6xf32>
    %1 = dt.reduce sum %0 over [1] : tensor<4x6xf32> -> tensor<4xf32>
    return %1 : tensor<4xf32>
  }

  // CHECK-LABEL: @what_becomes_larger_is_reduced_first
  func.func @what_becomes_larger_is_reduced_first(
      %x: tensor<4x8xf32> {dt.port = #dt.port<input "x", placed = <[{}, {"tp"}]>>},
      %w: tensor<8xf32> {dt.port = #dt.port<parameter "w", placed = <[{"tp"}]>>})
      -> (tensor<4x6xf32> {dt.port = #dt.port<output "y", placed = <[{}, {}]>>}) {
    // CHECK: %[[PARTIAL:.*]] = dt.contract
    // CHECK-NEXT: %[[WHOLE:.*]] = dt.all_reduce sum %[[PARTIAL]]
    // CHECK-NEXT: dt.broadcast %[[WHOLE]]
    %0 = dt.contract "ab,b->a" %x, %w : tensor<4x8xf32>, tensor<8xf32> -> tensor<4xf32>
    %1 = dt.broadcast %0 dims [0] : tensor<4xf32> -> tensor<4x6xf32>
    return %1 : tensor<4x6xf32>
  }

  // A sum with two readers passes where both hand it on to somebody who adds up: here gradients that may be partial.
  // CHECK-LABEL: @gradients_are_returned_partial
  func.func @gradients_are_returned_partial(
      %x: tensor<4x8xf32> {dt.port = #dt.port<input "x", placed = <[{}, {"tp"}]>>},
      %w: tensor<8x6xf32> {dt.port = #dt.port<parameter "w", placed = <[{"tp"}, {}]>>})
      -> (tensor<4x6xf32> {dt.port = #dt.port<gradient "a", partial>},
          tensor<4x6xf32> {dt.port = #dt.port<gradient "b", partial>}) {
    // CHECK-NOT: dt.all_reduce
    // CHECK: return
    %0 = dt.contract "ab,bc->ac" %x, %w : tensor<4x8xf32>, tensor<8x6xf32> -> tensor<4x6xf32>
    %1 = dt.neg %0 : tensor<4x6xf32>
    return %0, %1 : tensor<4x6xf32>, tensor<4x6xf32>
  }

  // One of the readers needs the sum whole: so it is reduced once, for both.
  // CHECK-LABEL: @one_reader_that_needs_the_whole_decides
  func.func @one_reader_that_needs_the_whole_decides(
      %x: tensor<4x8xf32> {dt.port = #dt.port<input "x", placed = <[{}, {"tp"}]>>},
      %w: tensor<8x6xf32> {dt.port = #dt.port<parameter "w", placed = <[{"tp"}, {}]>>})
      -> (tensor<4x6xf32> {dt.port = #dt.port<gradient "c", partial>}, tensor<4x6xf32> {dt.port = #dt.port<output "y">}) {
    // CHECK: %[[PARTIAL:.*]] = dt.contract
    // CHECK-NEXT: %[[WHOLE:.*]] = dt.all_reduce sum %[[PARTIAL]]
    // CHECK-NEXT: dt.neg %[[WHOLE]]
    // CHECK-NEXT: dt.exp %[[WHOLE]]
    %0 = dt.contract "ab,bc->ac" %x, %w : tensor<4x8xf32>, tensor<8x6xf32> -> tensor<4x6xf32>
    %1 = dt.neg %0 : tensor<4x6xf32>
    %2 = dt.exp %0 : tensor<4x6xf32>
    return %1, %2 : tensor<4x6xf32>, tensor<4x6xf32>
  }
}
