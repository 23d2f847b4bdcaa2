// Lengthens rows of products to what wide accesses ask for; see Passes.td for the idea.
//
// Which operand's rows become which result's is told by an operation's factors, as for splitting: a row is a last
// dimension, and lengthening it makes its factor larger wherever that stands.
#include "passes/lower/Passes.h"
#include "passes/lower/Targets.h"

#include "dialect/IR/ElementTypes.h"
#include "dialect/IR/Factors.h"
#include "dialect/IR/Ops.h"
#include "dialect/IR/Reductions.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SetVector.h"

namespace dtc {
#define GEN_PASS_DEF_PADROWS
#include "passes/lower/Passes.h.inc"
} // namespace dtc

using namespace mlir;
using namespace mlir::dt;

static RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

static RankedTensorType resized(Value value, int64_t dim, int64_t size) {
  SmallVector<int64_t> shape(typeOf(value).getShape());
  shape[dim] = size;
  return RankedTensorType::get(shape, typeOf(value).getElementType());
}

static int64_t lastDim(Value value) { return typeOf(value).getRank() - 1; }

/// The factor that is a dimension; none for one of several, or of size 1.
static std::optional<int> factorAt(const DimFactors &dims, int64_t dim) {
  return dims[dim].size() == 1 ? std::optional(dims[dim].front()) : std::nullopt;
}

/// Where a factor stands in a tensor.
static std::optional<int64_t> dimOf(int factor, const DimFactors &dims) {
  for (auto [dim, factors] : llvm::enumerate(dims))
    if (llvm::is_contained(factors, factor))
      return static_cast<int64_t>(dim);
  return std::nullopt;
}

namespace {

/// An operation that a library multiplies with: linear in both operands.
struct Product {
  explicit Product(Operation *op) : op(dyn_cast<FactorOpInterface>(op)) {
    isOne = this->op && isa<LibraryOpInterface>(op) && op->getNumOperands() == 2 && op->getNumResults() == 1 &&
            this->op.getLinearity(0) == Linearity::Multilinear && this->op.getLinearity(1) == Linearity::Multilinear;
    if (isOne)
      rule = this->op.getFactorRule();
  }

  /// The operand that alone has a factor.
  std::optional<unsigned> operandWith(int factor) const {
    bool first = dimOf(factor, rule.operands[0]).has_value(), second = dimOf(factor, rule.operands[1]).has_value();
    return first == second ? std::nullopt : std::optional<unsigned>(second);
  }

  FactorOpInterface op;
  FactorRule rule;
  bool isOne = false;
};

/// The rows of one product: its result, and what is computed of it.
class Rows {
public:
  Rows(Operation *product, int64_t padded) : product(product), padded(padded), size(sizeOf(product)) {}

  static int64_t sizeOf(Operation *product) { return typeOf(product->getResult(0)).getShape().back(); }

  /// Finds what is to be padded; false: something reads a row that cannot be.
  bool collect();
  void rewrite();

private:
  bool addUse(OpOperand &use);
  bool isPaddable(Value operand) const;
  bool canRead(const Product &reader, unsigned index) const;
  Value lengthen(OpBuilder &builder, Value value, int64_t dim) const;
  Value build(OpBuilder &builder, Operation *op);
  Value mapped(OpBuilder &builder, Value value);
  /// With the reduction's identity in the new columns.
  Value neutral(OpBuilder &builder, Value value, const Reduction &reduction) const;
  Value cleared(Value value);
  void rewriteReduction(OpOperand &use);
  void rewriteProduct(OpOperand &use);

  Operation *product;
  int64_t padded, size;
  llvm::SetVector<Value> values;      ///< with the rows, in the order found
  SmallVector<OpOperand *> readers;   ///< reductions and products
  DenseMap<Value, Value> replacement; ///< of values, and of what they are computed with
  DenseMap<Value, Value> withZeros;   ///< in the new columns
};

bool Rows::collect() {
  values.insert(product->getResult(0));
  for (size_t i = 0; i < values.size(); ++i)
    for (OpOperand &use : values[i].getUses())
      if (!addUse(use))
        return false;
  return llvm::all_of(llvm::drop_begin(values), [&](Value value) {
    return llvm::all_of(value.getDefiningOp()->getOperands(),
                        [&](Value v) { return values.contains(v) || isPaddable(v); });
  });
}

bool Rows::addUse(OpOperand &use) {
  Operation *op = use.getOwner();
  if (isa<ElementwiseOpInterface>(op)) {
    values.insert(op->getResult(0));
    return true;
  }
  readers.push_back(&use);
  if (auto reduction = dyn_cast<ReductionOpInterface>(op))
    return llvm::is_contained(reduction.getReducedDims(), lastDim(use.get()));
  return canRead(Product(op), use.getOperandNumber());
}

/// What has as many columns as it is asked for: computed without rows of its own, and not by an element's place in the
/// whole tensor.
bool Rows::isPaddable(Value operand) const {
  Operation *op = operand.getDefiningOp();
  if (isa_and_present<ElementwiseOpInterface>(op))
    return llvm::all_of(op->getOperands(), [&](Value v) { return isPaddable(v); });
  bool isPlaced = op && (isa<SitedOpInterface>(op) || llvm::any_of(op->getAttrs(), [](NamedAttribute attribute) {
                           return isa<ShardingAttr>(attribute.getValue());
                         }));
  auto factors = dyn_cast_if_present<FactorOpInterface>(op);
  if (!factors || isPlaced || !isFusible(op) || isa<ReductionOpInterface>(op))
    return false;
  FactorRule rule = factors.getFactorRule();
  std::optional<int> row = factorAt(rule.results[0], lastDim(operand));
  return row && llvm::none_of(rule.operands, [&](const DimFactors &dims) { return dimOf(*row, dims).has_value(); });
}

/// A product sums along rows, which the other operand has too, or has them as the slowest dimension of its result.
bool Rows::canRead(const Product &reader, unsigned index) const {
  if (!reader.isOne)
    return false;
  DimFactors dims = reader.rule.operands[index];
  std::optional<int> row = factorAt(dims, static_cast<int64_t>(dims.size()) - 1);
  if (!row)
    return false;
  if (!dimOf(*row, reader.rule.results[0]))
    return !values.contains(reader.op->getOperand(1 - index));
  return dimOf(*row, reader.rule.results[0]) == 0 && reader.operandWith(*row) == index;
}

/// A value with zeros behind along a dimension.
Value Rows::lengthen(OpBuilder &builder, Value value, int64_t dim) const {
  return buildLonger(builder, value.getLoc(), value, dim, padded);
}

/// `op` with longer rows.
Value Rows::build(OpBuilder &builder, Operation *op) {
  SmallVector<Value> operands;
  for (Value operand : op->getOperands())
    operands.push_back(op != product && typeOf(operand).getShape() == typeOf(op->getResult(0)).getShape()
                           ? mapped(builder, operand)
                           : operand);
  Value result = op->getResult(0);
  if (op == product) {
    Product rows(op);
    int row = *factorAt(rows.rule.results[0], lastDim(result));
    unsigned index = *rows.operandWith(row);
    operands[index] = lengthen(builder, operands[index], *dimOf(row, rows.rule.operands[index]));
  }
  SmallVector<ShardingAttr> whole(op->getNumOperands() + 1,
                                  ShardingAttr::replicated(op->getContext(), lastDim(result) + 1));
  return cast<FactorOpInterface>(op)
      .buildLocal(builder, operands, resized(result, lastDim(result), padded), whole, whole)
      ->getResult(0);
}

Value Rows::mapped(OpBuilder &builder, Value value) {
  if (Value known = replacement.lookup(value))
    return known;
  Value built = build(builder, value.getDefiningOp());
  return replacement[value] = built;
}

Value Rows::neutral(OpBuilder &builder, Value value, const Reduction &reduction) const {
  return buildNeutralPadding(builder, value.getLoc(), value, Extent{lastDim(value), size}, reduction);
}

Value Rows::cleared(Value value) {
  OpBuilder builder(value.getContext());
  builder.setInsertionPointAfterValue(value);
  Value &known = withZeros[value];
  return known ? known : known = neutral(builder, value, reductionOf(ReductionKind::Sum));
}

void Rows::rewriteReduction(OpOperand &use) {
  OpBuilder builder(use.getOwner());
  const Reduction &reduction = reductionOf(cast<ReductionOpInterface>(use.getOwner()).getReductionKind());
  Value rows = replacement.lookup(use.get());
  use.set(reduction.isLinear ? cleared(rows) : neutral(builder, rows, reduction));
}

void Rows::rewriteProduct(OpOperand &use) {
  Product reader(use.getOwner());
  OpBuilder builder(reader.op);
  unsigned index = use.getOperandNumber();
  int row = *factorAt(reader.rule.operands[index], lastDim(use.get()));
  use.set(cleared(replacement.lookup(use.get())));
  Value result = reader.op->getResult(0);
  if (!dimOf(row, reader.rule.results[0])) {
    OpOperand &other = reader.op->getOpOperand(1 - index);
    return other.set(lengthen(builder, other.get(), *dimOf(row, reader.rule.operands[1 - index])));
  }
  RankedTensorType old = typeOf(result);
  result.setType(resized(result, 0, padded));
  builder.setInsertionPointAfter(reader.op);
  Value part = buildFirst(builder, result.getLoc(), result, old);
  result.replaceAllUsesExcept(part, part.getDefiningOp());
}

void Rows::rewrite() {
  auto isBefore = [](Value a, Value b) { return a.getDefiningOp()->isBeforeInBlock(b.getDefiningOp()); };
  SmallVector<Value> ordered = values.takeVector();
  llvm::sort(ordered, isBefore);
  for (Value value : ordered) {
    OpBuilder builder(value.getDefiningOp());
    mapped(builder, value);
  }
  for (OpOperand *use : readers)
    isa<ReductionOpInterface>(use->getOwner()) ? rewriteReduction(*use) : rewriteProduct(*use);
  SmallVector<Value> replaced = llvm::to_vector(llvm::make_first_range(replacement));
  llvm::sort(replaced, isBefore);
  for (Value value : llvm::reverse(replaced))
    if (value.use_empty()) // others may read what these were computed with
      value.getDefiningOp()->erase();
}

struct PadRows : dtc::impl::PadRowsBase<PadRows> {
  void runOnOperation() override {
    uint64_t alignment = dtc::targetOf(getOperation()).getBufferAlignment();
    if (alignment == 1)
      return;
    SmallVector<Operation *> products; // which stay where rows of others are rewritten
    for (Operation &op : getOperation().front())
      if (Product(&op).isOne)
        products.push_back(&op);
    for (Operation *op : products)
      padRows(op, alignment);
  }

  static void padRows(Operation *op, uint64_t alignment) {
    Product product(op);
    Value result = op->getResult(0);
    int64_t rank = typeOf(result).getRank();
    std::optional<int> row = rank > 1 ? factorAt(product.rule.results[0], rank - 1) : std::nullopt;
    auto unit = static_cast<int64_t>(alignment / elementTypeOf(result.getType()).bytes);
    if (!row || !product.operandWith(*row) || Rows::sizeOf(op) % unit == 0)
      return;
    Rows rows(op, llvm::alignTo(Rows::sizeOf(op), unit));
    if (rows.collect())
      rows.rewrite();
  }
};

} // namespace
