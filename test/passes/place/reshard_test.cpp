// Every chain of collectives between two placements keeps the value: random placements of random shapes, dimensions
// that do not divide and partial sums among them, run on all ranks with poisoned padding.
#include "dialect/IR/Ops.h"
#include "dialect/reference/Mesh.h"
#include "dialect/reference/Shards.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "passes/place/Reshard.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include <random>

using namespace mlir;
using namespace mlir::dt;
using namespace dtc;
using Kind = ReshardStep::Kind;

namespace {

class Reshard : public testing::Test {
protected:
  Reshard() {
    context.loadDialect<DTDialect, func::FuncDialect>();
    auto name = [&](StringRef text) { return StringAttr::get(&context, text); };
    mesh = MeshAttr::get(&context, {AxisAttr::get(&context, name("dp"), 2), AxisAttr::get(&context, name("tp"), 6)});
    std::string problem;
    // Atoms: dp, and tp cut as 2 * 3.
    axes.emplace(*AxisTable::create(mesh, AxisRefAttr::get(&context, name("tp"), 1, 2), problem));
  }

  std::vector<Kind> kindsOf(ArrayRef<int64_t> shape, const Placement &from, const Placement &to) {
    std::vector<Kind> kinds;
    for (const ReshardStep &step : planReshard(*axes, shape, from, to))
      kinds.push_back(step.kind);
    return kinds;
  }

  /// Each atom splits a dimension, is partial in some way, or neither; those of one dimension in any order.
  Placement randomPlacement(bool partial) {
    Placement placement = Placement::replicated(3);
    std::vector<int> atoms = {0, 1, 2};
    std::shuffle(atoms.begin(), atoms.end(), random);
    for (int atom : atoms) {
      int choice = std::uniform_int_distribution<int>(0, partial ? 5 : 3)(random);
      if (choice < 3)
        placement.dims[choice].push_back(atom);
      else if (choice > 3)
        placement.partial[choice == 4 ? ReductionKind::Sum : ReductionKind::Max] |= AtomMask(1) << atom;
    }
    return placement;
  }

  void check(RankedTensorType type, const Placement &from, const Placement &to) {
    OwningOpRef<ModuleOp> module(ModuleOp::create(UnknownLoc::get(&context)));
    OpBuilder builder = OpBuilder::atBlockEnd(module->getBody());
    auto function =
        func::FuncOp::create(builder, builder.getUnknownLoc(), "f",
                             builder.getFunctionType(axes->localType(type, from), axes->localType(type, to)));
    builder.setInsertionPointToStart(function.addEntryBlock());
    Value made = buildReshard(builder, *axes, function.getArgument(0), type,
                              planReshard(*axes, type.getShape(), from, to), {builder.getUnknownLoc(), {}, "", ""});
    func::ReturnOp::create(builder, builder.getUnknownLoc(), made);
    HostTensor whole(type.getShape());
    for (int64_t i = 0; i < whole.size(); ++i)
      whole[i] = static_cast<double>(i + 1);
    SmallVector<HostTensors> arguments;
    // Of sums the first rank holds the value, of maxima all do; here one of them holds it, and the others less.
    SmallVector<AxisRefAttr> maxima = axes->shardingOf(from).getPartial(ReductionKind::Max);
    for (auto [rank, piece] : llvm::enumerate(scatter(whole, axes->shardingOf(from), mesh, 0))) {
      if (getIndexIn(mesh, static_cast<int64_t>(rank), maxima) != 0)
        for (double &element : *piece.elements)
          element /= 2;
      arguments.push_back({piece});
    }
    FailureOr<SmallVector<HostTensors>> results = interpret(function, mesh, arguments);
    ASSERT_TRUE(succeeded(results));
    HostTensors pieces;
    for (const HostTensors &rank : *results)
      pieces.push_back(rank[0]);
    std::string problem;
    std::optional<HostTensor> gathered = gather(pieces, axes->shardingOf(to), mesh, type.getShape(), problem);
    ASSERT_TRUE(gathered) << problem;
    EXPECT_EQ(*gathered->elements, *whole.elements);
  }

  MLIRContext context;
  MeshAttr mesh;
  std::optional<AxisTable> axes;
  std::mt19937 random{11};
};

TEST_F(Reshard, KeepsTheValue) {
  auto f32 = Float32Type::get(&context);
  for (const std::vector<int64_t> &shape : std::vector<std::vector<int64_t>>{{12, 24, 12}, {5, 7, 12}, {1, 13, 6}})
    for (int trial = 0; trial < 200 && !HasFailure(); ++trial) {
      Placement from = randomPlacement(/*partial=*/true), to = randomPlacement(/*partial=*/false);
      SCOPED_TRACE("trial " + std::to_string(trial));
      check(RankedTensorType::get(shape, f32), from, to);
    }
}

// An exchange would leave the pieces in the old order of the axes.
TEST_F(Reshard, AxesThatMoveInAnotherOrderAreGathered) {
  Placement rows = Placement::replicated(3), columns = rows;
  rows.dims[0] = {0, 1};
  columns.dims[1] = {1, 0};
  check(RankedTensorType::get({12, 24, 12}, Float32Type::get(&context)), rows, columns);
}

TEST_F(Reshard, ChoosesTheCheapestCollective) {
  Placement whole = Placement::replicated(2), rows = whole, columns = whole, partial = whole;
  rows.dims[0] = {0};
  columns.dims[1] = {0};
  partial.partial[ReductionKind::Sum] = 1;
  using testing::ElementsAre;
  EXPECT_THAT(kindsOf({8, 8}, partial, whole), ElementsAre(Kind::AllReduce));
  EXPECT_THAT(kindsOf({8, 8}, partial, rows), ElementsAre(Kind::ReduceScatter));
  EXPECT_THAT(kindsOf({8, 8}, rows, whole), ElementsAre(Kind::AllGather));
  EXPECT_THAT(kindsOf({8, 8}, rows, columns), ElementsAre(Kind::AllToAll));
  EXPECT_THAT(kindsOf({8, 8}, whole, rows), ElementsAre(Kind::Slice));
  // What makes the piece smaller comes before what moves it.
  Placement rowsAndPartial = rows;
  rowsAndPartial.partial[ReductionKind::Sum] = 2;
  Placement split = whole;
  split.dims[1] = {2};
  EXPECT_THAT(kindsOf({8, 9}, rowsAndPartial, split), ElementsAre(Kind::Slice, Kind::AllReduce, Kind::AllGather));
}

// The maximum of sums: the sums come first, whatever is cheaper.
TEST_F(Reshard, ResolvesEachKindByACollectiveOfItsOwn) {
  Placement from = Placement::replicated(2), whole = from, split = from;
  from.partial[ReductionKind::Max] = 1;
  from.partial[ReductionKind::Sum] = 0b110;
  split.dims[0] = {0};
  split.dims[1] = {1};
  auto steps = planReshard(*axes, {8, 8}, from, whole);
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(steps[0].kind, Kind::AllReduce);
  EXPECT_EQ(steps[0].reduction, ReductionKind::Sum);
  EXPECT_EQ(maskOf(steps[0].atoms), 0b110U);
  EXPECT_EQ(steps[1].kind, Kind::AllReduce);
  EXPECT_EQ(steps[1].reduction, ReductionKind::Max);
  EXPECT_EQ(maskOf(steps[1].atoms), 1U);
  EXPECT_THAT(kindsOf({8, 8}, from, split),
              testing::ElementsAre(Kind::ReduceScatter, Kind::AllReduce, Kind::ReduceScatter));
  EXPECT_EQ(planReshard(*axes, {8, 8}, from, split).back().reduction, ReductionKind::Max);
  check(RankedTensorType::get({8, 8}, Float32Type::get(&context)), from, split);
  // What stays partial over some axes is resolved over the others.
  steps = planReshard(*axes, {8, 8}, from, from.withPartial(1));
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps[0].reduction, ReductionKind::Sum);
}

TEST_F(Reshard, BytesFollowTheTable) {
  Placement whole = Placement::replicated(1), partial = whole, rows = whole;
  partial.partial[ReductionKind::Sum] = 1;
  rows.dims[0] = {0};
  Type element = Float32Type::get(&context);
  auto bytes = [&](const Placement &from, const Placement &to) {
    return reshardBytes(*axes, RankedTensorType::get({8}, element), from, planReshard(*axes, {8}, from, to));
  };
  EXPECT_EQ(bytes(partial, whole), 2 * 0.5 * 8 * 4);
  EXPECT_EQ(bytes(partial, rows), 0.5 * 8 * 4);
  EXPECT_EQ(bytes(rows, whole), 0.5 * 8 * 4);
  EXPECT_EQ(bytes(whole, rows), 0);
  element = BFloat16Type::get(&context);
  EXPECT_EQ(bytes(partial, whole), 2 * 0.5 * 8 * 2);
  element = IntegerType::get(&context, 8);
  EXPECT_EQ(bytes(rows, whole), 0.5 * 8 * 1);
}

TEST_F(Reshard, CutsWithoutCommonRefinementAreRefused) {
  auto tp = StringAttr::get(&context, "tp");
  std::string problem;
  EXPECT_TRUE(failed(
      AxisTable::create(mesh, {AxisRefAttr::get(&context, tp, 1, 2), AxisRefAttr::get(&context, tp, 1, 3)}, problem)));
  EXPECT_THAT(problem, testing::HasSubstr("no common refinement"));
}

} // namespace
