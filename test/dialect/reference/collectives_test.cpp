// Partitioned functions on all ranks: collectives, and operations that depend on their position in the whole tensor.
#include "dialect/reference/Mesh.h"
#include "test/dialect/reference/support.h"

namespace mlir::dt::test {
namespace {

class Collectives : public ReferenceTest {
protected:
  MeshAttr mesh() { return attribute<MeshAttr>(R"(#dt.mesh<"dp" = 2, "tp" = 2>)"); }

  SmallVector<HostTensors> runOnMesh(StringRef text, ArrayRef<HostTensors> arguments) {
    FailureOr<SmallVector<HostTensors>> results = interpret(parse(text), mesh(), arguments);
    EXPECT_TRUE(succeeded(results)) << error;
    return succeeded(results) ? *results : SmallVector<HostTensors>(4, HostTensors(1, HostTensor({0})));
  }

  /// Rank r holds [10 r, 10 r + 1, ...].
  static SmallVector<HostTensors> counted(ArrayRef<int64_t> shape) {
    SmallVector<HostTensors> ranks;
    for (int64_t rank = 0; rank < 4; ++rank) {
      HostTensor piece = iota(shape);
      for (double &element : *piece.elements)
        element += 10 * double(rank);
      ranks.push_back({piece});
    }
    return ranks;
  }
};

TEST_F(Collectives, SubAxesNameDigitsOfARank) {
  auto wide = attribute<MeshAttr>(R"(#dt.mesh<"dp" = 2, "tp" = 8>)");
  auto sharding = attribute<ShardingAttr>(R"(#dt.sharding<[{"tp":(2)2}, {"tp":(4)2, "dp"}]>)");
  int64_t rank = 1 * 8 + 0b110; // dp 1, tp digits 1 1 0
  EXPECT_EQ(getIndexIn(wide, rank, sharding.getDimAxes(0)), 1);
  EXPECT_EQ(getIndexIn(wide, rank, sharding.getDimAxes(1)), 1);
  EXPECT_THAT(getGroup(wide, rank, sharding.getDimAxes(0)), ElementsAre(0b1100, 0b1110));
  EXPECT_THAT(getGroup(wide, rank, sharding.getDimAxes(1)), ElementsAre(0b0110, 0b1110, 0b0111, 0b1111));
}

TEST_F(Collectives, AllReduceCombinesTheGroup) {
  auto results = runOnMesh(R"(func.func @f(%a: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
    %0 = dt.all_reduce sum %a over [#dt.axis_ref<"tp", 1, 0>] : tensor<2xf32> -> tensor<2xf32>
    %1 = dt.all_reduce max %a over [#dt.axis_ref<"dp", 1, 0>] : tensor<2xf32> -> tensor<2xf32>
    return %0, %1 : tensor<2xf32>, tensor<2xf32> })",
                           counted({2}));
  EXPECT_THAT(*results[1][0].elements, ElementsAre(10, 12));
  EXPECT_THAT(*results[2][0].elements, ElementsAre(50, 52));
  EXPECT_THAT(*results[0][1].elements, ElementsAre(20, 21));
  EXPECT_THAT(*results[3][1].elements, ElementsAre(30, 31));
}

TEST_F(Collectives, ReduceScatterThenAllGatherIsAllReduce) {
  auto results = runOnMesh(R"(func.func @f(%a: tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x1xf32>) {
    %axes = dt.all_reduce sum %a over [#dt.axis_ref<"dp", 1, 0>, #dt.axis_ref<"tp", 1, 0>] : tensor<2x4xf32> -> tensor<2x4xf32>
    %s = dt.reduce_scatter sum %a along 1 over [#dt.axis_ref<"dp", 1, 0>, #dt.axis_ref<"tp", 1, 0>] : tensor<2x4xf32> -> tensor<2x1xf32>
    %g = dt.all_gather %s along 1 over [#dt.axis_ref<"dp", 1, 0>, #dt.axis_ref<"tp", 1, 0>] : tensor<2x1xf32> -> tensor<2x4xf32>
    return %axes, %g, %s : tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x1xf32> })",
                           counted({2, 4}));
  for (int64_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(*results[rank][0].elements, *results[rank][1].elements);
    EXPECT_THAT(*results[rank][2].elements, ElementsAre(60 + 4.0 * double(rank), 60 + 16 + 4.0 * double(rank)));
  }
}

TEST_F(Collectives, AllToAllMovesASplitFromOneDimensionToAnother) {
  auto sharded = attribute<ShardingAttr>(R"(#dt.sharding<[{"tp"}, {}]>)");
  auto other = attribute<ShardingAttr>(R"(#dt.sharding<[{}, {"tp"}]>)");
  HostTensor whole = iota({4, 6});
  SmallVector<HostTensors> arguments;
  for (HostTensor &piece : scatter(whole, sharded, mesh()))
    arguments.push_back({piece});
  auto results = runOnMesh(R"(func.func @f(%a: tensor<2x6xf32>) -> tensor<4x3xf32> {
    %0 = dt.all_to_all %a split 1 concat 0 over [#dt.axis_ref<"tp", 1, 0>] : tensor<2x6xf32> -> !dt.future<tensor<4x3xf32>>
    %1 = dt.wait %0 : !dt.future<tensor<4x3xf32>> -> tensor<4x3xf32>
    return %1 : tensor<4x3xf32> })",
                           arguments);
  HostTensors pieces = scatter(whole, other, mesh());
  for (int64_t rank = 0; rank < 4; ++rank)
    EXPECT_EQ(*results[rank][0].elements, *pieces[rank].elements);
}

TEST_F(Collectives, ShardSlicePadsTheLastPartWithZeros) {
  auto results = runOnMesh(R"(func.func @f(%a: tensor<5xf32>) -> tensor<2xf32> {
    %0 = dt.shard_slice %a along 0 over [#dt.axis_ref<"dp", 1, 0>, #dt.axis_ref<"tp", 1, 0>] : tensor<5xf32> -> tensor<2xf32>
    return %0 : tensor<2xf32> })",
                           SmallVector<HostTensors>(4, {iota({5})}));
  EXPECT_THAT(*results[1][0].elements, ElementsAre(2, 3));
  EXPECT_THAT(*results[2][0].elements, ElementsAre(4, 0));
  EXPECT_THAT(*results[3][0].elements, ElementsAre(0, 0));
}

TEST_F(Collectives, GatherOfARowShardedTableSumsToTheWhole) {
  HostTensor table = iota({6, 2}), indices = tensor({3}, {5, 0, 3});
  SmallVector<HostTensors> arguments;
  for (HostTensor &piece : scatter(table, attribute<ShardingAttr>(R"(#dt.sharding<[{"dp", "tp"}, {}]>)"), mesh()))
    arguments.push_back({piece, indices}); // four pieces of ceil(6 / 4) = 2 rows; the last is padding
  auto results = runOnMesh(R"(func.func @f(%t: tensor<2x2xf32>, %i: tensor<3xi32>) -> tensor<3x2xf32> {
    %0 = dt.gather %t, %i sharded <[{"dp", "tp"}, {}]> : tensor<2x2xf32>, tensor<3xi32> -> tensor<3x2xf32>
    %1 = dt.all_reduce sum %0 over [#dt.axis_ref<"dp", 1, 0>, #dt.axis_ref<"tp", 1, 0>] : tensor<3x2xf32> -> tensor<3x2xf32>
    return %1 : tensor<3x2xf32> })",
                           arguments);
  for (const HostTensors &rank : results)
    EXPECT_THAT(*rank[0].elements, ElementsAre(10, 11, 0, 1, 6, 7));
}

TEST_F(Collectives, ScatterAddKeepsOnlyTheRowsOfThePiece) {
  HostTensor indices = tensor({3}, {2, 2, 1}), updates = tensor({3, 1}, {1, 10, 100});
  SmallVector<HostTensors> arguments(4, {HostTensor({2, 1}), indices, updates});
  auto results =
      runOnMesh(R"(func.func @f(%t: tensor<2x1xf32>, %i: tensor<3xi32>, %u: tensor<3x1xf32>) -> tensor<2x1xf32> {
    %0 = dt.scatter_add %t, %i, %u sharded <[{"tp"}, {}]> : tensor<2x1xf32>, tensor<3xi32>, tensor<3x1xf32>
    return %0 : tensor<2x1xf32> })",
                arguments);
  EXPECT_THAT(*results[0][0].elements, ElementsAre(0, 100));
  EXPECT_THAT(*results[1][0].elements, ElementsAre(11, 0));
}

TEST_F(Collectives, IotaAndRandomGiveThePiecesOfTheWhole) {
  HostTensor key = tensor({4}, {5, 6, 2, 0});
  HostTensors whole = run(R"(func.func @f(%key: tensor<4xi32>) -> (tensor<4x6xi32>, tensor<4x6xf32>) {
    %0 = dt.iota 1 : tensor<4x6xi32>
    %1 = dt.random %key site 3 of [4, 6] : tensor<4xi32> -> tensor<4x6xf32>
    return %0, %1 : tensor<4x6xi32>, tensor<4x6xf32> })",
                          {key});
  auto pieces = runOnMesh(R"(func.func @f(%key: tensor<4xi32>) -> (tensor<2x3xi32>, tensor<2x3xf32>) {
    %0 = dt.iota 1 sharded <[{"tp"}, {"dp"}]> : tensor<2x3xi32>
    %1 = dt.random %key site 3 of [4, 6] sharded <[{"tp"}, {"dp"}]> : tensor<4xi32> -> tensor<2x3xf32>
    return %0, %1 : tensor<2x3xi32>, tensor<2x3xf32> })",
                          SmallVector<HostTensors>(4, {key}));
  auto sharding = attribute<ShardingAttr>(R"(#dt.sharding<[{"tp"}, {"dp"}]>)");
  for (int result = 0; result < 2; ++result) {
    std::string problem;
    HostTensors ofRanks = llvm::map_to_vector(pieces, [&](const HostTensors &rank) { return rank[result]; });
    std::optional<HostTensor> gathered = gather(ofRanks, sharding, mesh(), {4, 6}, problem);
    ASSERT_TRUE(gathered) << problem;
    EXPECT_EQ(*gathered->elements, *whole[result].elements);
  }
}

TEST_F(Collectives, ACollectiveOnOneRankIsAnError) {
  func::FuncOp function = parse(R"(func.func @f(%a: tensor<2xf32>) -> tensor<2xf32> {
    %0 = dt.all_reduce sum %a over [#dt.axis_ref<"tp", 1, 0>] : tensor<2xf32> -> tensor<2xf32>
    return %0 : tensor<2xf32> })");
  EXPECT_TRUE(failed(interpret(function, HostTensors{iota({2})})));
  EXPECT_THAT(error, HasSubstr("needs the other ranks"));
}

} // namespace
} // namespace mlir::dt::test
