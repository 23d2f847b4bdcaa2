// Operations on pieces, and the collectives between them.

// RUN: dtc-opt %s --dt-propagate --dt-partition 2>/dev/null | FileCheck %s

module attributes {dt.mesh = #dt.mesh<"tp" = 2>} {
  // Two partial sums are added first and reduced once.
  // CHECK-LABEL: @partial_sums_add_before_one_reduction
  func.func @partial_sums_add_before_one_reduction(
      %x: tensor<4x8xf32> {dt.role = "input", dt.name = "x", dt.sharding = #dt.sharding<[{}, {"tp"}]>},
      %w1: tensor<8x6xf32> {dt.role = "parameter", dt.name = "w1", dt.sharding = #dt.sharding<[{"tp"}, {}]>},
      %w2: tensor<8x6xf32> {dt.role = "parameter", dt.name = "w2", dt.sharding = #dt.sharding<[{"tp"}, {}]>})
      -> (tensor<4x6xf32> {dt.role = "output", dt.name = "y", dt.sharding = #dt.sharding<[{}, {}]>}) {
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
      %x: tensor<4x8xf32> {dt.role = "input", dt.name = "x", dt.sharding = #dt.sharding<[{}, {"tp"}]>},
      %w: tensor<8x6xf32> {dt.role = "parameter", dt.name = "w", dt.dims = ["mlp", "embed"], dt.sharding = #dt.sharding<[{"tp"}, {}]>},
      %b: tensor<4x6xf32> {dt.role = "input", dt.name = "b", dt.sharding = #dt.sharding<[{}, {}]>})
      -> (tensor<4x6xf32> {dt.role = "output", dt.name = "y", dt.sharding = #dt.sharding<[{}, {}]>}) {
    // CHECK: %[[PARTIAL:.*]] = dt.contract
    // CHECK-NEXT: %[[WHOLE:.*]] = dt.all_reduce sum %[[PARTIAL]] {{.*}}remedy = "[parameters] \22w\22 = { mlp = [] }"
    // CHECK-NEXT: dt.add %[[WHOLE]], %arg2
    %0 = dt.contract "ab,bc->ac" %x, %w : tensor<4x8xf32>, tensor<8x6xf32> -> tensor<4x6xf32>
    %1 = dt.add %0, %b : tensor<4x6xf32>
    return %1 : tensor<4x6xf32>
  }

  // Seven rows over two ranks: the eighth is padding and takes no part in the maximum.
  // CHECK-LABEL: @padding_is_masked_before_a_reduction
  func.func @padding_is_masked_before_a_reduction(
      %x: tensor<7xf32> {dt.role = "input", dt.name = "x", dt.sharding = #dt.sharding<[{"tp"}]>})
      -> (tensor<f32> {dt.role = "output", dt.name = "y", dt.sharding = #dt.sharding<[]>}) {
    // CHECK: %[[PLACE:.*]] = dt.iota 0 sharded
    // CHECK: %[[VALID:.*]] = dt.compare lt %[[PLACE]]
    // CHECK: %[[MASKED:.*]] = dt.select %[[VALID]], %arg0
    // CHECK: dt.reduce max %[[MASKED]]
    // CHECK: dt.all_reduce max
    %0 = dt.reduce max %x over [0] : tensor<7xf32> -> tensor<f32>
    return %0 : tensor<f32>
  }
}
