// Work of operations and functions.
#include "dialect/cost/Cost.h"
#include "test/dialect/reference/support.h"

using namespace mlir;
using namespace mlir::dt;
using namespace mlir::dt::test;

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
  std::vector<double> bytes;
  for (Operation &op : function.front().without_terminator())
    bytes.push_back(operandAndResultBytes(&op));
  EXPECT_EQ(bytes, (std::vector<double>{6 * (4 + 2), 6 * (2 + 4)})); // a mask is an i32 in memory
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
}

} // namespace
