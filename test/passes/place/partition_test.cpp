// Small functions partitioned and run on all ranks: each result equals that of the whole function, and the padding of
// state is zero.
#include "dialect/IR/Names.h"
#include "dialect/IR/Ops.h"
#include "dialect/reference/Shards.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "passes/place/Attributes.h"
#include "passes/place/Passes.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::dt;
using namespace dtc;

namespace {

class Partition : public testing::Test {
protected:
  Partition() { context.loadDialect<DTDialect, func::FuncDialect>(); }

  /// Runs @f whole and in pieces, on numbers that are mostly negative or, for integers, row numbers.
  void check(StringRef body, StringRef axes = "\"tp\" = 2") {
    std::string text = "module attributes {dt.mesh = #dt.mesh<" + axes.str() + ">} {\n" + body.str() + "}\n";
    OwningOpRef<ModuleOp> whole = parseSourceString<ModuleOp>(text, &context);
    ASSERT_TRUE(whole);
    OwningOpRef<ModuleOp> local = whole->clone();
    PassManager manager(&context);
    manager.addPass(createPropagate());
    manager.addPass(createPartition());
    manager.addNestedPass<func::FuncOp>(createStackReductions());
    ASSERT_TRUE(succeeded(manager.run(*local)));
    auto before = whole->lookupSymbol<func::FuncOp>("f"), after = local->lookupSymbol<func::FuncOp>("f");
    auto mesh = (*local)->getAttrOfType<MeshAttr>(module_attr::mesh);
    HostTensors arguments;
    SmallVector<HostTensors> ranks(mesh.getNumRanks());
    for (BlockArgument argument : before.getArguments()) {
      unsigned i = argument.getArgNumber();
      HostTensor &value = arguments.emplace_back(makeUp(cast<RankedTensorType>(argument.getType())));
      PortAttr port = argumentPort(after, i);
      HostTensors pieces = scatter(value, port.getStored(), mesh, port.isState() ? 0 : poisonValue);
      for (auto [rank, piece] : llvm::enumerate(pieces))
        ranks[rank].push_back(piece);
    }
    FailureOr<HostTensors> expected = interpret(before, arguments);
    FailureOr<SmallVector<HostTensors>> actual = interpret(after, mesh, ranks);
    ASSERT_TRUE(succeeded(expected) && succeeded(actual));
    for (unsigned i = 0; i < after.getNumResults(); ++i)
      compare((*expected)[i], *actual, i, after, mesh);
  }

  static HostTensor makeUp(RankedTensorType type) {
    HostTensor tensor(type.getShape());
    for (int64_t i = 0; i < tensor.size(); ++i)
      tensor[i] = type.getElementType().isInteger() ? double(i % 3) : 0.25 * double(i % 5) - 2;
    return tensor;
  }

  static void compare(const HostTensor &expected, ArrayRef<HostTensors> ranks, unsigned result, func::FuncOp function,
                      MeshAttr mesh) {
    HostTensors pieces;
    for (const HostTensors &rank : ranks)
      pieces.push_back(rank[result]);
    PortAttr port = resultPort(function, result);
    ShardingAttr sharding = port.getStored();
    std::string problem;
    std::optional<HostTensor> gathered = gather(pieces, sharding, mesh, expected.shape, problem);
    ASSERT_TRUE(gathered) << "result " << result << ": " << problem;
    for (int64_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(expected[i], (*gathered)[i], 1e-12) << "result " << result << ", element " << i;
    if (!port.isState())
      return;
    for (auto [piece, zeroPadded] : llvm::zip_equal(pieces, scatter(*gathered, sharding, mesh, 0)))
      EXPECT_EQ(*piece.elements, *zeroPadded.elements) << "padding of result " << result;
  }

  MLIRContext context;
};

// exp(0) = 1 would be in the eighth element.
TEST_F(Partition, StateComesBackWithZeroPadding) {
  check(R"(func.func @f(%w: tensor<7xf32> {dt.port = #dt.port<parameter "w", placed = <[{"tp"}]>>})
      -> (tensor<7xf32> {dt.port = #dt.port<parameter "w", placed = <[{"tp"}]>>}) {
    %0 = dt.exp %w : tensor<7xf32>
    return %0 : tensor<7xf32>
  })");
}

constexpr const char *twoAxes = "\"dp\" = 2, \"tp\" = 2";

TEST_F(Partition, PaddingOfTwoDimensionsIsMasked) {
  check(
      R"(func.func @f(%x: tensor<5x7xf32> {dt.port = #dt.port<input "x", placed = <[{"dp"}, {"tp"}]>>})
      -> (tensor<f32> {dt.port = #dt.port<output "y", placed = <[]>>}) {
    %0 = dt.reduce sum %x over [0, 1] : tensor<5x7xf32> -> tensor<f32>
    return %0 : tensor<f32>
  })",
      twoAxes);
}

// The padding for one reader is not what another one needs.
TEST_F(Partition, AMaximumAndASumReadOnePaddedValue) {
  for (const char *kinds : {"max sum", "sum max"}) {
    auto [first, second] = StringRef(kinds).split(' ');
    check((R"(func.func @f(%x: tensor<7xf32> {dt.port = #dt.port<input "x", placed = <[{"tp"}]>>})
      -> (tensor<f32> {dt.port = #dt.port<output "y", placed = <[]>>},
          tensor<f32> {dt.port = #dt.port<output "z", placed = <[]>>}) {
    %0 = dt.reduce )" +
           first + " %x over [0] : tensor<7xf32> -> tensor<f32>\n%1 = dt.reduce " + second +
           R"( %x over [0] : tensor<7xf32> -> tensor<f32>
    return %0, %1 : tensor<f32>, tensor<f32>
  })")
              .str());
  }
}

// Sums may be added, scaled and negated before they are whole, maxima may not.
TEST_F(Partition, AMaximumIsWholeBeforeItIsNegated) {
  check(
      R"(func.func @f(%x: tensor<4x8xf32> {dt.port = #dt.port<input "x", placed = <[{}, {"tp"}]>>})
      -> (tensor<4xf32> {dt.port = #dt.port<output "y", placed = <[{}]>>}) {
    %0 = dt.reduce max %x over [1] : tensor<4x8xf32> -> tensor<4xf32>
    %1 = dt.neg %0 : tensor<4xf32>
    return %1 : tensor<4xf32>
  })");
}

// The padding of the rows is anything, and still is when the product is whole.
TEST_F(Partition, AReductionDoesNotMakePaddingZero) {
  check(
      R"(func.func @f(%x: tensor<5x4xf32> {dt.port = #dt.port<input "x", placed = <[{"tp"}, {"dp"}]>>},
                        %w: tensor<4xf32> {dt.port = #dt.port<parameter "w", placed = <[{"dp"}]>>})
      -> (tensor<f32> {dt.port = #dt.port<output "y", placed = <[]>>}) {
    %0 = dt.contract "ab,b->a" %x, %w : tensor<5x4xf32>, tensor<4xf32> -> tensor<5xf32>
    %1 = dt.mul %0, %0 : tensor<5xf32>
    %2 = dt.reduce sum %1 over [0] : tensor<5xf32> -> tensor<f32>
    return %2 : tensor<f32>
  })",
      twoAxes);
}

// The table that the rows are added to is whole on every rank; the rows are split.
TEST_F(Partition, AWholeTermIsAddedOnce) {
  check(
      R"(func.func @f(%table: tensor<3x2xf32> {dt.port = #dt.port<input "table", placed = <[{}, {}]>>},
      %rows: tensor<4xi32> {dt.port = #dt.port<input "rows", placed = <[{"tp"}]>>},
      %updates: tensor<4x2xf32> {dt.port = #dt.port<input "updates", placed = <[{"tp"}, {}]>>})
      -> (tensor<3x2xf32> {dt.port = #dt.port<output "y", placed = <[{}, {}]>>}) {
    %0 = dt.scatter_add %table, %rows, %updates : tensor<3x2xf32>, tensor<4xi32>, tensor<4x2xf32>
    return %0 : tensor<3x2xf32>
  })");
}

// Both are numbers over the same axes: only reductions of one kind travel together.
TEST_F(Partition, ASumAndAMaximumAreReducedApart) {
  check(R"(func.func @f(%x: tensor<6xf32> {dt.port = #dt.port<input "x", placed = <[{"tp"}]>>})
      -> (tensor<f32> {dt.port = #dt.port<output "sum", placed = <[]>>},
          tensor<f32> {dt.port = #dt.port<output "maximum", placed = <[]>>}) {
    %0 = dt.reduce sum %x over [0] : tensor<6xf32> -> tensor<f32>
    %1 = dt.reduce max %x over [0] : tensor<6xf32> -> tensor<f32>
    return %0, %1 : tensor<f32>, tensor<f32>
  })");
}

// All numbers are negative: a zero in the padding would be the maximum.
TEST_F(Partition, PaddingIsNeverTheMaximum) {
  check(R"(func.func @f(%x: tensor<5xf32> {dt.port = #dt.port<parameter "x", placed = <[{"tp"}]>>})
      -> (tensor<f32> {dt.port = #dt.port<output "y", placed = <[]>>}) {
    %0 = dt.reduce max %x over [0] : tensor<5xf32> -> tensor<f32>
    return %0 : tensor<f32>
  })");
}

// All integers are negative; they have no infinity to be padded with.
TEST_F(Partition, PaddingIsNeverTheLargestInteger) {
  check(R"(func.func @f(%x: tensor<5xi32> {dt.port = #dt.port<input "x", placed = <[{"tp"}]>>})
      -> (tensor<i32> {dt.port = #dt.port<output "y", placed = <[]>>}) {
    %more = dt.constant dense<9> : tensor<5xi32>
    %0 = dt.sub %x, %more : tensor<5xi32>
    %1 = dt.reduce max %0 over [0] : tensor<5xi32> -> tensor<i32>
    return %1 : tensor<i32>
  })");
}

// The padding of exp(x) is not that of x.
TEST_F(Partition, PaddingThatIsNotZeroIsMaskedBeforeASum) {
  check(R"(func.func @f(%x: tensor<5xf32> {dt.port = #dt.port<parameter "x", placed = <[{"tp"}]>>})
      -> (tensor<f32> {dt.port = #dt.port<output "y", placed = <[]>>}) {
    %0 = dt.exp %x : tensor<5xf32>
    %1 = dt.reduce sum %0 over [0] : tensor<5xf32> -> tensor<f32>
    return %1 : tensor<f32>
  })");
}

} // namespace
