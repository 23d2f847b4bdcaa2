// Work of operations and functions.
#include "dialect/cost/Cost.h"
#include "test/dialect/reference/support.h"

namespace mlir::dt::test {
namespace {

class Cost : public ReferenceTest {};

TEST_F(Cost, ContractionsCountTwoForEachMultiplyAdd) {
  func::FuncOp function = parse(R"(func.func @f(%a: tensor<2x3x5xf32>, %b: tensor<5x7xf32>) -> tensor<2x3x7xf32> {
    %0 = dt.contract "bsd,df->bsf" %a, %b : tensor<2x3x5xf32>, tensor<5x7xf32> -> tensor<2x3x7xf32>
    %1 = dt.add %0, %0 : tensor<2x3x7xf32>
    return %1 : tensor<2x3x7xf32> })");
  EXPECT_EQ(*countFlops(function), 2 * 2 * 3 * 5 * 7 + 2 * 3 * 7);
  EXPECT_EQ(*countModelFlops(function), 3 * 2 * 2 * 3 * 5 * 7); // without the elementwise work
}

TEST_F(Cost, BytesAreOfTheElementsTypes) {
  func::FuncOp function = parse(R"(func.func @f(%a: tensor<6xf32>) -> tensor<6xi1> {
    %0 = dt.convert %a : tensor<6xf32> -> tensor<6xbf16>
    %1 = dt.convert %0 : tensor<6xbf16> -> tensor<6xi1>
    return %1 : tensor<6xi1> })");
  std::vector<std::pair<double, double>> bytes;
  for (Operation &op : function.front().without_terminator())
    bytes.emplace_back(workOf(&op)->bytesRead, workOf(&op)->bytesWritten);
  EXPECT_EQ(bytes, (std::vector<std::pair<double, double>>{{6 * 4, 6 * 2}, {6 * 2, 6 * 4}})); // a mask is an i32
}

TEST_F(Cost, OfATableOnlyTheRowsThatAreNamedCount) {
  func::FuncOp function = parse(R"(func.func @f(%t: tensor<100x8xf32>, %i: tensor<3xi32>, %u: tensor<3x8xf32>)
      -> (tensor<3x8xf32>, tensor<100x8xf32>) {
    %0 = dt.gather %t, %i : tensor<100x8xf32>, tensor<3xi32> -> tensor<3x8xf32>
    %1 = dt.scatter_add %t, %i, %u : tensor<100x8xf32>, tensor<3xi32>, tensor<3x8xf32>
    return %0, %1 : tensor<3x8xf32>, tensor<100x8xf32> })");
  Operation &gather = function.front().front(), &scatter = *gather.getNextNode();
  EXPECT_EQ(workOf(&gather)->bytesRead, 3 * 8 * 4 + 3 * 4);
  EXPECT_EQ(workOf(&gather)->bytesWritten, 3 * 8 * 4);
  EXPECT_EQ(workOf(&scatter)->bytesRead, 2 * 3 * 8 * 4 + 3 * 4);
  EXPECT_EQ(workOf(&scatter)->bytesWritten, 3 * 8 * 4);
  EXPECT_EQ(workOf(&scatter)->kind, WorkClass::Indexed);
}

TEST_F(Cost, OfACacheOnlyTheRowsThatAreWrittenCount) {
  func::FuncOp function = parse(R"(func.func @f(%c: tensor<2x100x8xbf16>, %r: tensor<2x3x8xbf16>, %p: tensor<3xi32>)
      -> tensor<2x100x8xbf16> {
    %0 = dt.write_rows %r into %c at %p : tensor<2x3x8xbf16>, tensor<3xi32> -> tensor<2x100x8xbf16>
    return %0 : tensor<2x100x8xbf16> })");
  Operation &write = function.front().front();
  EXPECT_EQ(workOf(&write)->bytesRead, 2 * 3 * 8 * 2 + 3 * 4);
  EXPECT_EQ(workOf(&write)->bytesWritten, 2 * 3 * 8 * 2);
  EXPECT_EQ(workOf(&write)->flops, 0);
}

TEST_F(Cost, AKernelReadsItsArgumentsOnceAndWritesItsResults) {
  func::FuncOp function = parse(R"(func.func @unused() { return }
    dt.kernel @norm(%x: tensor<4x8xf32>, %w: tensor<8xbf16>) -> (tensor<4x8xf32>, tensor<4xf32>) {
      %square = dt.mul %x, %x : tensor<4x8xf32>
      %sum = dt.reduce sum %square over [1] : tensor<4x8xf32> -> tensor<4xf32>
      %wide = dt.convert %w : tensor<8xbf16> -> tensor<8xf32>
      %rows = dt.broadcast %wide dims [1] : tensor<8xf32> -> tensor<4x8xf32>
      %y = dt.mul %x, %rows : tensor<4x8xf32>
      dt.yield %y, %sum : tensor<4x8xf32>, tensor<4xf32>
    })");
  ASSERT_TRUE(function);
  FailureOr<Work> work = workOf(*module->getOps<KernelOp>().begin());
  ASSERT_TRUE(succeeded(work));
  EXPECT_EQ(work->kind, WorkClass::Reduction);
  EXPECT_EQ(work->flops, 3 * 4 * 8);
  EXPECT_EQ(work->bytesRead, 4 * 8 * 4 + 8 * 2);
  EXPECT_EQ(work->bytesWritten, 4 * 8 * 4 + 4 * 4);
}

TEST_F(Cost, AttentionCountsTwoProductsOfAllPairs) {
  func::FuncOp function = parse(R"(func.func @f(%q: tensor<2x3x2x2x4xf32>, %k: tensor<2x6x2x4xf32>,
      %qp: tensor<3xi32>, %kp: tensor<6xi32>, %key: tensor<4xi32>) -> tensor<2x3x2x2x4xf32> {
    %o, %l = dt.attention %q, %k, %k, %qp, %kp, %key {scale = 0.5, causal = true, dropout = 0.0, site = 9 : i64,
        global_shape = array<i64: 2, 2, 2, 6>}
      : (tensor<2x3x2x2x4xf32>, tensor<2x6x2x4xf32>, tensor<2x6x2x4xf32>, tensor<3xi32>, tensor<6xi32>, tensor<4xi32>)
      -> (tensor<2x3x2x2x4xf32>, tensor<2x2x2x3xf32>)
    return %o : tensor<2x3x2x2x4xf32> })");
  EXPECT_EQ(*countFlops(function), 2 * 2 * (2 * 2 * 2) * 3 * 6 * 4);
  // Each query sees two keys.
  function.walk([](dt::AttentionOp op) { op.setWindow(2); });
  EXPECT_EQ(*countFlops(function), 2 * 2 * (2 * 2 * 2) * 3 * 2 * 4);
}

} // namespace
} // namespace mlir::dt::test
