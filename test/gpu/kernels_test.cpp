// Every kind of kernel, on sizes that fill vectors, warps and blocks and on sizes that do not.
#include "test/gpu/kernels.h"

#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace mlir;

namespace dtc::test {
namespace {

/// The text with $R, $C and $T for rows, columns and element type.
std::string instantiate(std::string text, int64_t rows, int64_t columns, const std::string &type) {
  for (auto [name, value] :
       {std::pair("$R", std::to_string(rows)), std::pair("$C", std::to_string(columns)), std::pair("$T", type)})
    for (size_t at = 0; (at = text.find(name, at)) != std::string::npos;)
      text.replace(at, 2, value);
  return text;
}

struct Case {
  int64_t rows, columns;
  const char *type;
};

void PrintTo(const Case &each, std::ostream *out) { *out << each.rows << "x" << each.columns << "x" << each.type; }

class Shapes : public testing::TestWithParam<Case> {
protected:
  void expectMatch(const char *text) {
    auto [rows, columns, type] = GetParam();
    MLIRContext context;
    context.loadDialect<dt::DTDialect>();
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(instantiate(text, rows, columns, type), &context);
    ASSERT_TRUE(module);
    GpuKernels kernels(*module);
    for (auto kernel : module->getOps<dt::KernelOp>())
      kernels.expectMatch(kernel);
  }
};

class LongRows : public Shapes {};

constexpr const char *elements = R"(
  dt.kernel @flat(%x: tensor<$Rx$Cx$T>, %rate: tensor<f32>) -> (tensor<$Rx$Cx$T>, tensor<$Rx$Cxf32>) {
    %wide = dt.convert %x : tensor<$Rx$Cx$T> -> tensor<$Rx$Cxf32>
    %rates = dt.broadcast %rate dims [] : tensor<f32> -> tensor<$Rx$Cxf32>
    %y = dt.mul %wide, %rates : tensor<$Rx$Cxf32>
    %slope = dt.gelu_grad %y, %y tanh : tensor<$Rx$Cxf32>
    %exact = dt.gelu_grad %slope, %y : tensor<$Rx$Cxf32>
    %gelu = dt.gelu %exact : tensor<$Rx$Cxf32>
    %narrow = dt.convert %gelu : tensor<$Rx$Cxf32> -> tensor<$Rx$Cx$T>
    dt.yield %narrow, %y : tensor<$Rx$Cx$T>, tensor<$Rx$Cxf32>
  }
  dt.kernel @bias(%x: tensor<$Rx$Cx$T>, %b: tensor<$Cx$T>, %r: tensor<$Rx$T>) -> (tensor<$Rx$Cx$T>) {
    %columns = dt.broadcast %b dims [1] : tensor<$Cx$T> -> tensor<$Rx$Cx$T>
    %rows = dt.broadcast %r dims [0] : tensor<$Rx$T> -> tensor<$Rx$Cx$T>
    %y = dt.add %x, %columns : tensor<$Rx$Cx$T>
    %z = dt.mul %y, %rows : tensor<$Rx$Cx$T>
    dt.yield %z : tensor<$Rx$Cx$T>
  })";

constexpr const char *rows = R"(
  dt.kernel @norm(%x: tensor<$Rx$Cx$T>, %scale: tensor<$Cx$T>) -> (tensor<$Rx$Cx$T>, tensor<$Rxf32>) {
    %wide = dt.convert %x : tensor<$Rx$Cx$T> -> tensor<$Rx$Cxf32>
    %square = dt.mul %wide, %wide : tensor<$Rx$Cxf32>
    %sum = dt.reduce sum %square over [1] : tensor<$Rx$Cxf32> -> tensor<$Rxf32>
    %root = dt.rsqrt %sum : tensor<$Rxf32>
    %roots = dt.broadcast %root dims [0] : tensor<$Rxf32> -> tensor<$Rx$Cxf32>
    %scales = dt.broadcast %scale dims [1] : tensor<$Cx$T> -> tensor<$Rx$Cx$T>
    %scalesWide = dt.convert %scales : tensor<$Rx$Cx$T> -> tensor<$Rx$Cxf32>
    %a = dt.mul %wide, %roots : tensor<$Rx$Cxf32>
    %b = dt.mul %a, %scalesWide : tensor<$Rx$Cxf32>
    %y = dt.convert %b : tensor<$Rx$Cxf32> -> tensor<$Rx$Cx$T>
    dt.yield %y, %root : tensor<$Rx$Cx$T>, tensor<$Rxf32>
  }
  dt.kernel @softmax(%x: tensor<$Rx$Cxf32>) -> (tensor<$Rx$Cxf32>, tensor<$Rxf32>) {
    %max = dt.reduce max %x over [1] : tensor<$Rx$Cxf32> -> tensor<$Rxf32>
    %maxAll = dt.broadcast %max dims [0] : tensor<$Rxf32> -> tensor<$Rx$Cxf32>
    %shifted = dt.sub %x, %maxAll : tensor<$Rx$Cxf32>
    %e = dt.exp %shifted : tensor<$Rx$Cxf32>
    %sum = dt.reduce sum %e over [1] : tensor<$Rx$Cxf32> -> tensor<$Rxf32>
    %sumAll = dt.broadcast %sum dims [0] : tensor<$Rxf32> -> tensor<$Rx$Cxf32>
    %y = dt.div %e, %sumAll : tensor<$Rx$Cxf32>
    %log = dt.log %sum : tensor<$Rxf32>
    %lse = dt.add %log, %max : tensor<$Rxf32>
    dt.yield %y, %lse : tensor<$Rx$Cxf32>, tensor<$Rxf32>
  })";

constexpr const char *sums = R"(
  dt.kernel @columns(%x: tensor<$Rx$Cx$T>, %row: tensor<$Rxf32>, %before: tensor<$Cxf32>)
      -> (tensor<$Cxf32>, tensor<$Cxf32>) {
    %wide = dt.convert %x : tensor<$Rx$Cx$T> -> tensor<$Rx$Cxf32>
    %rows = dt.broadcast %row dims [0] : tensor<$Rxf32> -> tensor<$Rx$Cxf32>
    %product = dt.mul %wide, %rows : tensor<$Rx$Cxf32>
    %sum = dt.reduce sum %product over [0] : tensor<$Rx$Cxf32> -> tensor<$Cxf32>
    %next = dt.add %before, %sum : tensor<$Cxf32>
    %max = dt.reduce max %wide over [0] : tensor<$Rx$Cxf32> -> tensor<$Cxf32>
    dt.yield %next, %max : tensor<$Cxf32>, tensor<$Cxf32>
  }
  dt.kernel @between(%x: tensor<3x$Rx$Cxf32>) -> tensor<3x$Cxf32> {
    %sum = dt.reduce sum %x over [1] : tensor<3x$Rx$Cxf32> -> tensor<3x$Cxf32>
    dt.yield %sum : tensor<3x$Cxf32>
  }
  dt.kernel @whole(%x: tensor<$Rx$Cx$T>, %before: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
    %wide = dt.convert %x : tensor<$Rx$Cx$T> -> tensor<$Rx$Cxf32>
    %square = dt.mul %wide, %wide : tensor<$Rx$Cxf32>
    %sum = dt.reduce sum %square over [0, 1] : tensor<$Rx$Cxf32> -> tensor<f32>
    %next = dt.add %sum, %before : tensor<f32>
    %max = dt.reduce max %wide over [0, 1] : tensor<$Rx$Cxf32> -> tensor<f32>
    dt.yield %next, %max : tensor<f32>, tensor<f32>
  }
  dt.kernel @normalised(%x: tensor<$Rx$Cxf32>) -> (tensor<$Rx$Cxf32>, tensor<f32>) {
    %square = dt.mul %x, %x : tensor<$Rx$Cxf32>
    %sum = dt.reduce sum %square over [0, 1] : tensor<$Rx$Cxf32> -> tensor<f32>
    %root = dt.rsqrt %sum : tensor<f32>
    %all = dt.broadcast %root dims [] : tensor<f32> -> tensor<$Rx$Cxf32>
    %y = dt.mul %x, %all : tensor<$Rx$Cxf32>
    %max = dt.reduce max %y over [0, 1] : tensor<$Rx$Cxf32> -> tensor<f32>
    dt.yield %y, %max : tensor<$Rx$Cxf32>, tensor<f32>
  }
  dt.kernel @total(%x: tensor<3x$Rx$Cxf32>, %weight: tensor<$Rxf32>) -> tensor<3xf32> {
    %all = dt.broadcast %weight dims [1] : tensor<$Rxf32> -> tensor<3x$Rx$Cxf32>
    %product = dt.mul %x, %all : tensor<3x$Rx$Cxf32>
    %sum = dt.reduce sum %product over [1, 2] : tensor<3x$Rx$Cxf32> -> tensor<3xf32>
    dt.yield %sum : tensor<3xf32>
  })";

/// The part that rounding removes, multiplied so that it shows: readers of a stored value get the rounded number.
constexpr const char *stored = R"(
  dt.kernel @rows(%x: tensor<$Rx$Cxf32>) -> (tensor<$Rx$Cx$T>, tensor<$Rx$Cxf32>, tensor<$Rxf32>) {
    %n = dt.convert %x : tensor<$Rx$Cxf32> -> tensor<$Rx$Cx$T>
    %w = dt.convert %n : tensor<$Rx$Cx$T> -> tensor<$Rx$Cxf32>
    %lost = dt.sub %w, %x : tensor<$Rx$Cxf32>
    %c = dt.constant dense<1024.0> : tensor<$Rx$Cxf32>
    %y = dt.mul %lost, %c : tensor<$Rx$Cxf32>
    %max = dt.reduce max %y over [1] : tensor<$Rx$Cxf32> -> tensor<$Rxf32>
    dt.yield %n, %y, %max : tensor<$Rx$Cx$T>, tensor<$Rx$Cxf32>, tensor<$Rxf32>
  }
  dt.kernel @columns(%x: tensor<$Rx$Cx$T>) -> (tensor<$Cx$T>, tensor<$Cxf32>) {
    %n = dt.reduce max %x over [0] : tensor<$Rx$Cx$T> -> tensor<$Cx$T>
    %c = dt.constant dense<1.01> : tensor<$Cxf32>
    %wide = dt.convert %n : tensor<$Cx$T> -> tensor<$Cxf32>
    %more = dt.mul %wide, %c : tensor<$Cxf32>
    %y = dt.convert %more : tensor<$Cxf32> -> tensor<$Cx$T>
    %w = dt.convert %y : tensor<$Cx$T> -> tensor<$Cxf32>
    %lost = dt.sub %w, %more : tensor<$Cxf32>
    %d = dt.constant dense<1024.0> : tensor<$Cxf32>
    %z = dt.mul %lost, %d : tensor<$Cxf32>
    dt.yield %y, %z : tensor<$Cx$T>, tensor<$Cxf32>
  })";

/// Cross-entropy's sums over a row that no block can hold. Its elements ascend, so that every round has a larger one;
/// the first half of the first row is minus infinity, and columns beyond the vocabulary are larger than all others.
constexpr const char *rising = R"(
  dt.kernel @logsumexp(%x: tensor<$Rx$Cx$T>) -> (tensor<$Rxf32>, tensor<$Rx$Cx$T>) {
    %wide = dt.convert %x : tensor<$Rx$Cx$T> -> tensor<$Rx$Cxf32>
    %column = dt.iota 1 : tensor<$Rx$Cxi32>
    %number = dt.convert %column : tensor<$Rx$Cxi32> -> tensor<$Rx$Cxf32>
    %slope = dt.constant dense<1.0e-3> : tensor<$Rx$Cxf32>
    %ramp = dt.mul %number, %slope : tensor<$Rx$Cxf32>
    %raised = dt.add %wide, %ramp : tensor<$Rx$Cxf32>
    %row = dt.iota 0 : tensor<$Rx$Cxi32>
    %half = dt.constant dense<15000> : tensor<$Rx$Cxi32>
    %isSeen = dt.compare ge %column, %half : tensor<$Rx$Cxi32> -> tensor<$Rx$Cxi1>
    %never = dt.constant dense<0xFF800000> : tensor<$Rx$Cxf32>
    %late = dt.select %isSeen, %raised, %never : tensor<$Rx$Cxi1>, tensor<$Rx$Cxf32>
    %one = dt.constant dense<1> : tensor<$Rx$Cxi32>
    %isFirst = dt.compare lt %row, %one : tensor<$Rx$Cxi32> -> tensor<$Rx$Cxi1>
    %logits = dt.select %isFirst, %late, %raised : tensor<$Rx$Cxi1>, tensor<$Rx$Cxf32>
    %end = dt.constant dense<29500> : tensor<$Rx$Cxi32>
    %isWord = dt.compare lt %column, %end : tensor<$Rx$Cxi32> -> tensor<$Rx$Cxi1>
    %words = dt.select %isWord, %logits, %never : tensor<$Rx$Cxi1>, tensor<$Rx$Cxf32>
    %max = dt.reduce max %words over [1] : tensor<$Rx$Cxf32> -> tensor<$Rxf32>
    %maxAll = dt.broadcast %max dims [0] : tensor<$Rxf32> -> tensor<$Rx$Cxf32>
    %shifted = dt.sub %logits, %maxAll : tensor<$Rx$Cxf32>
    %e = dt.exp %shifted : tensor<$Rx$Cxf32>
    %zero = dt.constant dense<0.0> : tensor<$Rx$Cxf32>
    %again = dt.compare lt %column, %end : tensor<$Rx$Cxi32> -> tensor<$Rx$Cxi1>
    %kept = dt.select %again, %e, %zero : tensor<$Rx$Cxi1>, tensor<$Rx$Cxf32>
    %sum = dt.reduce sum %kept over [1] : tensor<$Rx$Cxf32> -> tensor<$Rxf32>
    %log = dt.log %sum : tensor<$Rxf32>
    %lse = dt.add %log, %max : tensor<$Rxf32>
    %lseAll = dt.broadcast %lse dims [0] : tensor<$Rxf32> -> tensor<$Rx$Cxf32>
    %relative = dt.sub %logits, %lseAll : tensor<$Rx$Cxf32>
    %p = dt.exp %relative : tensor<$Rx$Cxf32>
    %y = dt.convert %p : tensor<$Rx$Cxf32> -> tensor<$Rx$Cx$T>
    dt.yield %lse, %y : tensor<$Rxf32>, tensor<$Rx$Cx$T>
  })";

TEST_P(LongRows, SumExponentialsAsTheyRise) { expectMatch(rising); }

// One lane, four, and eight that are taken as four; a block's rounds fill the row and do not.
INSTANTIATE_TEST_SUITE_P(Gpu, LongRows,
                         testing::Values(Case{2, 30001, "bf16"}, Case{3, 32768, "f32"}, Case{2, 50264, "bf16"}));

TEST_P(Shapes, Elements) { expectMatch(elements); }
TEST_P(Shapes, Rows) { expectMatch(rows); }
TEST_P(Shapes, Sums) { expectMatch(sums); }
TEST_P(Shapes, ReadsOfWhatIsStored) { expectMatch(stored); }

// Vectors of 8, 4, 2 and 1; parts of warps, warps, blocks; rows that registers hold and rows that are read again; one
// part and several.
INSTANTIATE_TEST_SUITE_P(Gpu, Shapes,
                         testing::Values(Case{3, 5, "f32"}, Case{33, 16, "bf16"}, Case{7, 66, "f16"},
                                         Case{5, 1024, "f32"}, Case{130, 132, "bf16"}, Case{2, 12000, "f32"},
                                         Case{2, 30001, "bf16"}, Case{301, 77, "f32"}));

} // namespace
} // namespace dtc::test
