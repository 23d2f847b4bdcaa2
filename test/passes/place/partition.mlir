// Operations on pieces, and the collectives between them.

// RUN: dtc-opt %s --dt-propagate --dt-partition 2>/dev/null | FileCheck %s

module attributes {dt.mesh = #dt.mesh<"tp" = 2>} {
  // Two partial sums are added first and reduced once.
  // CHECK-LABEL: @partial_sums_add_before_one_reduction
  func.func @partial_sums_add_before_one_reduction(
      %x: tensor<4x8xf32> {dt.port = #dt.port<input "x", placed = <[{}, {"tp"}]>>},
      %w1: tensor<8x6xf32> {dt.port = #dt.port<parameter "w1", placed = <[{"tp"}, {}]>>},
      %w2: tensor<8x6xf32> {dt.port = #dt.port<parameter "w2", placed = <[{"tp"}, {}]>>})
      -> (tensor<4x6xf32> {dt.port = #dt.port<output "y", placed = <[{}, {}]>>}) {
    // CHECK-NOT: dt.all_reduce
    // CHECK: %[[SUM:.*]] = dt.add
    // CHECK-NEXT: dt.all_reduce sum %[[SUM]]
    // CHECK-NEXT: return %
    %0 = dt.contract "ab,bc->ac" %x, %w1 : tensor<4x8xf32>, tensor<8x6xf32> -> tensor<4x6xf32>
    %1 = dt.contract "ab,bc->ac" %x, %w2 : tensor<4x8xf32>, tensor<8x6xf32> -> tensor<4x6xf32>
    %2 = dt.add %0, %1 : tensor<4x6xf32>
    return %2 : tensor<4x6xf32>
  }

  // A partial sum and a whole value: the sum is reduced before the addition.
  // CHECK-LABEL: @partial_and_whole_never_add
  func.func @partial_and_whole_never_add(
      %x: tensor<4x8xf32> {dt.port = #dt.port<input "x", placed = <[{}, {"tp"}]>>},
      %w: tensor<8x6xf32> {dt.port = #dt.port<parameter "w", placed = <[{"tp"}, {}]>>, dt.dims = ["mlp", "embed"]},
      %b: tensor<4x6xf32> {dt.port = #dt.port<input "b", placed = <[{}, {}]>>})
      -> (tensor<4x6xf32> {dt.port = #dt.port<output "y", placed = <[{}, {}]>>}) {
    // CHECK: %[[PARTIAL:.*]] = dt.contract
    // CHECK-NEXT: %[[WHOLE:.*]] = dt.all_reduce sum %[[PARTIAL]] {{.*}}remedy = "[parameters] \22w\22 = { mlp = [] }"
    // CHECK-NEXT: dt.add %[[WHOLE]], %arg2
    %0 = dt.contract "ab,bc->ac" %x, %w : tensor<4x8xf32>, tensor<8x6xf32> -> tensor<4x6xf32>
    %1 = dt.add %0, %b : tensor<4x6xf32>
    return %1 : tensor<4x6xf32>
  }

  // The first product needs the rows whole; of these the second takes its part, rather than exchange pieces once more.
  // CHECK-LABEL: @the_cheapest_version_is_taken
  func.func @the_cheapest_version_is_taken(
      %x: tensor<4x8xf32> {dt.port = #dt.port<input "x", placed = <[{"tp"}, {}]>>},
      %v: tensor<8x6xf32> {dt.port = #dt.port<parameter "v", placed = <[{}, {"tp"}]>>},
      %w: tensor<8x6xf32> {dt.port = #dt.port<parameter "w", placed = <[{"tp"}, {}]>>})
      -> (tensor<4x6xf32> {dt.port = #dt.port<output "first">}, tensor<4x6xf32> {dt.port = #dt.port<output "second">}) {
    // CHECK: %[[WHOLE:.*]] = dt.all_gather %arg0
    // CHECK-NOT: dt.all_to_all
    // CHECK: dt.shard_slice %[[WHOLE]]
    // CHECK-NOT: dt.all_to_all
    // CHECK: return
    %0 = dt.contract "ab,bc->ac" %x, %v : tensor<4x8xf32>, tensor<8x6xf32> -> tensor<4x6xf32>
    %1 = dt.contract "ab,bc->ac" %x, %w : tensor<4x8xf32>, tensor<8x6xf32> -> tensor<4x6xf32>
    return %0, %1 : tensor<4x6xf32>, tensor<4x6xf32>
  }

  // A sum with several readers is made whole where it is to lie, once, whoever reads it first.
  // CHECK-LABEL: @a_shared_sum_is_reduced_to_its_place
  func.func @a_shared_sum_is_reduced_to_its_place(
      %x: tensor<4x8xf32> {dt.port = #dt.port<input "x", placed = <[{}, {"tp"}]>>},
      %w: tensor<8x6xf32> {dt.port = #dt.port<parameter "w", placed = <[{"tp"}, {}]>>},
      %v: tensor<6x6xf32> {dt.port = #dt.port<parameter "v", placed = <[{}, {"tp"}]>>})
      -> (tensor<4x6xf32> {dt.port = #dt.port<output "third">}, tensor<4x6xf32> {dt.port = #dt.port<output "fourth">}) {
    // CHECK: %[[SUM:.*]] = dt.contract
    // CHECK-NEXT: %[[PLACE:.*]] = dt.reduce_scatter sum %[[SUM]]
    // CHECK-NEXT: dt.all_gather %[[PLACE]]
    // CHECK-NOT: dt.all_reduce
    // CHECK-NOT: dt.reduce_scatter
    // CHECK: return
    %0 = dt.contract "ab,bc->ac" %x, %w : tensor<4x8xf32>, tensor<8x6xf32> -> tensor<4x6xf32>
    %1 = dt.contract "ab,bc->ac" %0, %v : tensor<4x6xf32>, tensor<6x6xf32> -> tensor<4x6xf32>
    %2 = dt.tag %0 "residual" ["batch", "embed"] sharded <[{"tp"}, {}]> : tensor<4x6xf32>
    return %1, %2 : tensor<4x6xf32>, tensor<4x6xf32>
  }

  // Seven rows over two ranks: the eighth is padding and takes no part in the maximum.
  // CHECK-LABEL: @padding_is_masked_before_a_reduction
  func.func @padding_is_masked_before_a_reduction(
      %x: tensor<7xf32> {dt.port = #dt.port<input "x", placed = <[{"tp"}]>>})
      -> (tensor<f32> {dt.port = #dt.port<output "y", placed = <[]>>}) {
    // CHECK: %[[PLACE:.*]] = dt.iota 0 sharded
    // CHECK: %[[VALID:.*]] = dt.compare lt %[[PLACE]]
    // CHECK: %[[MASKED:.*]] = dt.select %[[VALID]], %arg0
    // CHECK: dt.reduce max %[[MASKED]]
    // CHECK: dt.all_reduce max
    %0 = dt.reduce max %x over [0] : tensor<7xf32> -> tensor<f32>
    return %0 : tensor<f32>
  }
}
