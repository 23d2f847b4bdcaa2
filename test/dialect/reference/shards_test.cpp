// Scattering whole tensors to pieces and gathering them again.
#include "test/dialect/reference/support.h"

namespace mlir::dt::test {
namespace {

class Shards : public ReferenceTest {
protected:
  MeshAttr mesh() { return attribute<MeshAttr>(R"(#dt.mesh<"dp" = 2, "tp" = 4>)"); }
};

TEST_F(Shards, GatherUndoesScatterForUnevenAndPartialShardings) {
  for (StringRef text :
       {R"(#dt.sharding<[{}, {}]>)", R"(#dt.sharding<[{"tp"}, {"dp"}]>)",
        R"(#dt.sharding<[{"tp":(1)2}, {"tp":(2)2}], partial = sum {"dp"}>)", R"(#dt.sharding<[{}, {"dp", "tp"}]>)",
        R"(#dt.sharding<[{"dp"}, {}], partial = max {"tp"}>)"}) {
    HostTensor whole = randomTensor({6, 5}, 1);
    auto sharding = attribute<ShardingAttr>(text);
    std::string problem;
    std::optional<HostTensor> again = gather(scatter(whole, sharding, mesh()), sharding, mesh(), {6, 5}, problem);
    ASSERT_TRUE(again) << text.str() << ": " << problem;
    EXPECT_EQ(*again->elements, *whole.elements) << text.str();
  }
}

TEST_F(Shards, PaddingIsPoisonUnlessAskedOtherwise) {
  auto sharding = attribute<ShardingAttr>(R"(#dt.sharding<[{"tp"}]>)");
  HostTensors poisoned = scatter(iota({5}), sharding, mesh()), zeroed = scatter(iota({5}), sharding, mesh(), 0);
  EXPECT_EQ(poisoned[2][0], 4);
  EXPECT_TRUE(std::isnan(poisoned[2][1]));
  EXPECT_TRUE(std::isnan(poisoned[3][0]));
  EXPECT_THAT(*zeroed[3].elements, ElementsAre(0, 0));
}

// A reduction over a padded dimension that forgets its mask reads the padding.
TEST_F(Shards, PoisonShowsAMissingMask) {
  SmallVector<HostTensors> arguments;
  for (HostTensor &piece : scatter(iota({5}), attribute<ShardingAttr>(R"(#dt.sharding<[{"tp"}]>)"), mesh()))
    arguments.push_back({piece});
  FailureOr<SmallVector<HostTensors>> results = interpret(parse(R"(func.func @f(%a: tensor<2xf32>) -> tensor<f32> {
    %0 = dt.reduce sum %a over [0] : tensor<2xf32> -> tensor<f32>
    %1 = dt.all_reduce sum %0 over [#dt.axis_ref<"tp", 1, 0>] : tensor<f32> -> tensor<f32>
    return %1 : tensor<f32> })"),
                                                          mesh(), arguments);
  ASSERT_TRUE(succeeded(results)) << error;
  EXPECT_TRUE(std::isnan((*results)[0][0][0]));
}

TEST_F(Shards, ReplicasThatDifferAreNamed) {
  auto sharding = attribute<ShardingAttr>(R"(#dt.sharding<[{"tp"}]>)");
  HostTensors pieces = scatter(iota({8}), sharding, mesh());
  pieces[6][1] = 0.5; // dp 1, tp 2
  std::string problem;
  EXPECT_FALSE(gather(pieces, sharding, mesh(), {8}, problem));
  EXPECT_THAT(problem, HasSubstr("ranks 2 and 6 should hold the same piece but differ at element 5"));
}

} // namespace
} // namespace mlir::dt::test
