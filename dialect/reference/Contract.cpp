// Reference semantics of contractions and of table rows.
#include "dialect/IR/Ops.h"
#include "dialect/reference/Gelu.h"
#include "dialect/reference/Strided.h"

#include <cmath>

using namespace mlir;
using namespace mlir::dt;

using Operands = ArrayRef<HostTensor>;
using Results = SmallVectorImpl<HostTensor>;

namespace {
/// A contraction as a batched matrix product: every letter of the einsum is a batch, row, column or summed letter.
struct ProductForm {
  std::string batch, rows, columns, summed;

  ProductForm(StringRef lhs, StringRef rhs, StringRef result) {
    for (char letter : lhs)
      (rhs.contains(letter) ? (result.contains(letter) ? batch : summed) : rows) += letter;
    for (char letter : rhs)
      if (!lhs.contains(letter))
        columns += letter;
  }
};
} // namespace

/// For each of `letters`, its position in `from`.
static SmallVector<int64_t> positionsIn(StringRef from, StringRef letters) {
  return llvm::map_to_vector(letters, [&](char letter) { return int64_t(from.find(letter)); });
}

static int64_t extent(StringRef spec, ArrayRef<int64_t> shape, StringRef letters) {
  int64_t size = 1;
  for (int64_t dim : positionsIn(spec, letters))
    size *= shape[dim];
  return size;
}

/// c [m, n] += a [m, k] b [k, n]; four rows of b at a time, so that c is read and written less often.
static void multiply(const double *a, const double *b, double *c, int64_t m, int64_t n, int64_t k) {
  constexpr int64_t block = 512; // columns of b and c that stay in cache
  for (int64_t begin = 0; begin < n; begin += block) {
    int64_t end = std::min(n, begin + block);
    for (int64_t i = 0; i < m; ++i) {
      const double *ai = a + i * k;
      double *ci = c + i * n;
      int64_t l = 0;
      for (; l + 4 <= k; l += 4) {
        const double *b0 = b + l * n, *b1 = b0 + n, *b2 = b1 + n, *b3 = b2 + n;
        for (int64_t j = begin; j < end; ++j)
          ci[j] += ai[l] * b0[j] + ai[l + 1] * b1[j] + ai[l + 2] * b2[j] + ai[l + 3] * b3[j];
      }
      for (; l < k; ++l)
        for (int64_t j = begin; j < end; ++j)
          ci[j] += ai[l] * b[l * n + j];
    }
  }
}

/// The contraction of the first two operands.
template <typename Contraction> static HostTensor contract(Contraction op, Operands operands) {
  auto [lhs, rhs, result] = *parseContractSpec(op.getSpec());
  ProductForm form(lhs, rhs, result);
  int64_t batch = extent(lhs, operands[0].shape, form.batch), m = extent(lhs, operands[0].shape, form.rows),
          k = extent(lhs, operands[0].shape, form.summed), n = extent(rhs, operands[1].shape, form.columns);
  HostTensor a = permute(operands[0], positionsIn(lhs, form.batch + form.rows + form.summed));
  HostTensor b = permute(operands[1], positionsIn(rhs, form.batch + form.summed + form.columns));

  std::string order = form.batch + form.rows + form.columns;
  ArrayRef<int64_t> resultShape = cast<RankedTensorType>(op.getResult().getType()).getShape();
  HostTensor product(llvm::map_to_vector(positionsIn(result, order), [&](int64_t dim) { return resultShape[dim]; }));
  for (int64_t i = 0; i < batch; ++i)
    multiply(a.elements->data() + i * m * k, b.elements->data() + i * k * n, product.elements->data() + i * m * n, m, n,
             k);
  return permute(product, positionsIn(order, result));
}

LogicalResult ContractOp::evaluate(Operands operands, const RankContext &, Results &results) {
  results.push_back(contract(*this, operands));
  return success();
}

LogicalResult ProductOp::evaluate(Operands operands, const RankContext &, Results &results) {
  HostTensor result = contract(*this, operands);
  const HostTensor &other = operands[2]; // an accumulator, a bias or x
  for (int64_t i = 0; i < result.size(); ++i)
    result[i] = getOperand() ? result[i] * geluTanhDerivative(other[i]) : result[i] + other[i % other.size()];
  std::optional<HostTensor> sum;
  if (getSum()) {
    sum = HostTensor(result.shape);
    *sum->elements = *result.elements;
  }
  if (getGelu())
    for (double &element : *result.elements)
      element = geluTanh(element);
  results.push_back(std::move(result));
  if (sum)
    results.push_back(std::move(*sum));
  return success();
}

/// The first row of the table that a rank's piece holds.
static int64_t firstRow(std::optional<ShardingAttr> sharding, int64_t rows, const RankContext &rank) {
  return sharding ? rank.indexIn(sharding->getDimAxes(0)) * rows : 0;
}

LogicalResult GatherOp::evaluate(Operands operands, const RankContext &rank, Results &results) {
  const HostTensor &table = operands[0], &indices = operands[1];
  int64_t rows = table.shape[0], width = table.shape[1], first = firstRow(getSharding(), rows, rank);
  HostTensor &result = results.emplace_back(getType().getShape());
  for (int64_t i = 0; i < indices.size(); ++i) {
    double row = indices[i] - double(first);
    double *to = result.elements->data() + i * width;
    if (row >= 0 && row < double(rows))
      std::copy_n(table.elements->data() + int64_t(row) * width, width, to);
    else if (std::isnan(row)) // an undefined index gives undefined elements
      std::fill_n(to, width, row);
  }
  return success();
}

LogicalResult ScatterAddOp::evaluate(Operands operands, const RankContext &rank, Results &results) {
  const HostTensor &indices = operands[1], &updates = operands[2];
  HostTensor result(operands[0].shape);
  *result.elements = *operands[0].elements;
  int64_t rows = result.shape[0], width = result.shape[1], first = firstRow(getSharding(), rows, rank);
  for (int64_t i = 0; i < indices.size(); ++i) {
    double row = indices[i] - double(first);
    if (std::isnan(row)) // an undefined index may hit any row
      std::fill(result.elements->begin(), result.elements->end(), row);
    if (row >= 0 && row < double(rows))
      for (int64_t j = 0; j < width; ++j)
        result[int64_t(row) * width + j] += updates[i * width + j];
  }
  results.push_back(result);
  return success();
}
