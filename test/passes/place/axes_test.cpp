// Placements in atoms and back, on a mesh whose second axis is cut in three: dp=2, tp=12 as 2 x 3 x 2.
#include "passes/place/Axes.h"

#include "dialect/IR/Ops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace mlir;
using namespace mlir::dt;
using namespace dtc;
using testing::ElementsAre;
using testing::IsEmpty;

namespace {

class Axes : public testing::Test {
protected:
  Axes() {
    context.loadDialect<DTDialect>();
    mesh = MeshAttr::get(&context, {AxisAttr::get(&context, name("dp"), 2), AxisAttr::get(&context, name("tp"), 12)});
    std::string problem;
    FailureOr<AxisTable> created = AxisTable::create(mesh, {part(2, 3)}, problem);
    EXPECT_TRUE(succeeded(created)) << problem;
    if (succeeded(created))
      axes = *created;
  }

  StringAttr name(StringRef text) { return StringAttr::get(&context, text); }
  AxisRefAttr part(int64_t pre, int64_t size) { return AxisRefAttr::get(&context, name("tp"), pre, size); }
  AxisRefAttr whole(StringRef axis) { return AxisRefAttr::whole(name(axis)); }

  MLIRContext context;
  MeshAttr mesh;
  AxisTable axes;
};

TEST_F(Axes, APartInTheMiddleCutsAnAxisInThree) {
  std::vector<int64_t> sizes;
  for (int atom : axes.atomsOf({whole("dp"), whole("tp")}))
    sizes.push_back(axes.sizeOf(atom));
  EXPECT_THAT(sizes, ElementsAre(2, 2, 3, 2));
  EXPECT_THAT(axes.atomsOf({part(2, 3)}), ElementsAre(2));
  EXPECT_THAT(axes.atomsOf({part(1, 6)}), ElementsAre(1, 2));
  EXPECT_THAT(axes.atomsOf({part(6, 2), whole("dp")}), ElementsAre(3, 0));
  EXPECT_EQ(axes.product(axes.atomsOf({part(2, 6)})), 6);
  EXPECT_EQ(axes.product(maskOf(axes.atomsOf({part(2, 3), whole("dp")}))), 6);
}

TEST_F(Axes, NeighboursOfOneAxisAreJoined) {
  EXPECT_THAT(axes.referencesOf(ArrayRef{1, 2, 3}), ElementsAre(whole("tp")));
  EXPECT_THAT(axes.referencesOf(ArrayRef{2, 3}), ElementsAre(part(2, 6)));
  EXPECT_THAT(axes.referencesOf(ArrayRef{3, 2}), ElementsAre(part(6, 2), part(2, 3)));
  EXPECT_THAT(axes.referencesOf(ArrayRef{1, 3}), ElementsAre(part(1, 2), part(6, 2)));
  EXPECT_THAT(axes.referencesOf(ArrayRef{0, 1}), ElementsAre(whole("dp"), part(1, 2)));
  EXPECT_THAT(axes.referencesOf(AtomMask(0)), IsEmpty());
}

TEST_F(Axes, AreNamedAsTheyAreWritten) {
  EXPECT_EQ(axes.name(ArrayRef{0, 2}), "dp, tp:(2)3");
  EXPECT_EQ(axes.name(AtomMask(0b1110)), "tp");
}

TEST_F(Axes, APlacementComesBackAsItWas) {
  for (ReductionKind kind : {ReductionKind::Sum, ReductionKind::Max}) {
    SmallVector<SmallVector<AxisRefAttr>> dims = {{part(6, 2), part(1, 2)}, {}, {whole("dp")}};
    auto sharding = ShardingAttr::get(&context, dims, {part(2, 3)}, kind);
    Placement placement = axes.placementOf(sharding);
    EXPECT_EQ(placement.splitMask(), 0b1011U);
    EXPECT_EQ(placement.partial.mask(), 0b0100U);
    EXPECT_EQ(placement.partial[kind], 0b0100U);
    EXPECT_EQ(placement.partial.areLinear(), kind == ReductionKind::Sum);
    EXPECT_EQ(axes.shardingOf(placement), sharding);
    // Without partial results there is nothing to combine.
    EXPECT_EQ(placement.withPartial(0).partial, Partials());
  }
}

TEST_F(Axes, EachPartialAxisHasItsKind) {
  SmallVector<SmallVector<AxisRefAttr>> dims(1);
  auto sharding = ShardingAttr::get(&context, dims, {part(2, 3), whole("dp")},
                                    ArrayRef{ReductionKind::Max, ReductionKind::Sum});
  Placement placement = axes.placementOf(sharding);
  EXPECT_EQ(placement.partial[ReductionKind::Sum], 0b0001U);
  EXPECT_EQ(placement.partial[ReductionKind::Max], 0b0100U);
  EXPECT_EQ(placement.partial.firstKind(), ReductionKind::Sum);
  EXPECT_FALSE(placement.partial.areLinear());
  EXPECT_EQ(axes.shardingOf(placement), sharding) << "in whatever order they were said";
  Placement other = placement;
  std::swap(other.partial[ReductionKind::Sum], other.partial[ReductionKind::Max]);
  EXPECT_FALSE(other == placement);
  EXPECT_EQ(placement.partial.without(other.partial).mask(), 0b0101U) << "partial in another way";
  EXPECT_EQ(placement.withPartial(0b0100).partial.firstKind(), ReductionKind::Max);
}

TEST_F(Axes, PiecesAreRoundedUp) {
  Placement placement = Placement::replicated(3);
  placement.dims[0] = {0};
  placement.dims[1] = {1, 2};
  EXPECT_THAT(axes.localShape({7, 12, 5}, placement), ElementsAre(4, 2, 5));
  EXPECT_TRUE(axes.isPadded({7, 12, 5}, placement));
  EXPECT_FALSE(axes.isPadded({8, 12, 5}, placement));
  EXPECT_THAT(axes.localShape({1, 7, 1}, placement), ElementsAre(1, 2, 1));
  EXPECT_TRUE(axes.isPadded({2, 7, 1}, placement));
}

} // namespace
