// The numbered constraints of every operation; the numbers are those of the operations' descriptions.
#include "dialect/IR/ElementTypes.h"
#include "dialect/IR/Ops.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallSet.h"

using namespace mlir;
using namespace mlir::dt;

static Type elementOf(Value value) { return cast<RankedTensorType>(value.getType()).getElementType(); }

static LogicalResult checkIncreasing(Operation *op, ArrayRef<int64_t> dims, int64_t rank) {
  for (auto [i, dim] : llvm::enumerate(dims))
    if (dim < 0 || dim >= rank || (i > 0 && dim <= dims[i - 1]))
      return op->emitOpError("C1: dims [") << dims << "] must increase strictly within a rank of " << rank;
  return success();
}

/// The sharding of a local piece has one entry for each dimension.
static LogicalResult checkSharding(Operation *op, std::optional<ShardingAttr> sharding, int64_t rank) {
  if (sharding && sharding->getRank() != rank)
    return op->emitOpError("sharding has ") << sharding->getRank() << " dimensions, expected " << rank;
  return success();
}

LogicalResult ConstantOp::verify() {
  if (!isa<DenseElementsAttr, DenseResourceElementsAttr>(getValue()))
    return emitOpError("value must be a dense constant");
  return success();
}

LogicalResult IotaOp::verify() {
  int64_t rank = getType().getRank();
  if (getDim() >= static_cast<uint64_t>(rank)) // a negative one becomes a large one
    return emitOpError("C1: dim ") << static_cast<int64_t>(getDim()) << " is not a dimension of a result of rank "
                                   << rank;
  return checkSharding(*this, getSharding(), rank);
}

LogicalResult RandomOp::verify() {
  if (shapeOf(getKey()) != ArrayRef<int64_t>{4})
    return emitOpError("C1: key must have shape [4], has [") << shapeOf(getKey()) << "]";
  if (static_cast<int64_t>(getGlobalShape().size()) != getType().getRank())
    return emitOpError("C2: global_shape [") << getGlobalShape() << "] must have the result's rank";
  return checkSharding(*this, getSharding(), getType().getRank());
}

LogicalResult BroadcastOp::verify() {
  ArrayRef<int64_t> from = shapeOf(getOperand()), to = shapeOf(getResult());
  if (failed(checkIncreasing(*this, getDims(), to.size())))
    return failure();
  if (getDims().size() != from.size())
    return emitOpError("C1: needs one of dims for each operand dimension");
  for (auto [size, dim] : llvm::zip(from, getDims()))
    if (to[dim] != size)
      return emitOpError("C2: operand size ") << size << " becomes " << to[dim] << " along result dimension " << dim;
  if (elementOf(getOperand()) != elementOf(getResult()))
    return emitOpError("C2: element types differ");
  return success();
}

LogicalResult ReshapeOp::verify() {
  auto from = cast<RankedTensorType>(getOperand().getType()), to = getType();
  if (from.getNumElements() != to.getNumElements() || from.getElementType() != to.getElementType())
    return emitOpError("C1: cannot turn ") << from << " into " << to;
  return success();
}

LogicalResult TransposeOp::verify() {
  ArrayRef<int64_t> from = shapeOf(getOperand()), to = shapeOf(getResult()), permutation = getPermutation();
  llvm::SmallSet<int64_t, 6> seen(permutation.begin(), permutation.end());
  if (permutation.size() != from.size() || seen.size() != from.size() || to.size() != from.size() ||
      llvm::any_of(permutation, [&](int64_t dim) { return dim < 0 || dim >= static_cast<int64_t>(from.size()); }))
    return emitOpError("C1: [") << permutation << "] does not permute " << from.size() << " dimensions";
  for (auto [size, dim] : llvm::zip(to, permutation))
    if (size != from[dim])
      return emitOpError("C2: result has size ") << size << " where operand dimension " << dim << " has " << from[dim];
  return success();
}

/// Whether a sum of the operand's elements may have the result's type: the elements' own, or the one that the sum is
/// formed in.
static bool canSumTo(Value operand, Value result) {
  return elementOf(operand) == elementOf(result) ||
         (elementTypeOf(result.getType()).type == elementTypeOf(operand.getType()).accumulator &&
          elementTypeOf(result.getType()).isFloating());
}

LogicalResult ReduceOp::verify() {
  ArrayRef<int64_t> from = shapeOf(getOperand());
  if (failed(checkIncreasing(*this, getDims(), from.size())))
    return failure();
  SmallVector<int64_t> kept;
  for (auto [dim, size] : llvm::enumerate(from))
    if (!llvm::is_contained(getDims(), static_cast<int64_t>(dim)))
      kept.push_back(size);
  if (shapeOf(getResult()) != ArrayRef<int64_t>(kept) || !canSumTo(getOperand(), getResult()))
    return emitOpError("C2: expected a result of shape [")
           << kept << "] and the operand's element type or its accumulator's, found " << getType();
  return success();
}

static LogicalResult checkBox(Operation *op, Value whole, Value box, ArrayRef<int64_t> offsets) {
  ArrayRef<int64_t> outer = shapeOf(whole), inner = shapeOf(box);
  if (outer.size() != inner.size() || offsets.size() != outer.size() || elementOf(whole) != elementOf(box))
    return op->emitOpError("C1: ranks and element types must agree, with one offset a dimension");
  for (auto [size, part, offset] : llvm::zip(outer, inner, offsets))
    if (offset < 0 || part > size - offset)
      return op->emitOpError("C1: ") << part << " elements at offset " << offset << " do not fit into " << size;
  return success();
}

LogicalResult SliceOp::verify() { return checkBox(*this, getOperand(), getResult(), getOffsets()); }
LogicalResult PadOp::verify() { return checkBox(*this, getResult(), getOperand(), getOffsets()); }

LogicalResult UpdateSliceOp::verify() { return checkBox(*this, getResult(), getUpdate(), getOffsets()); }

SmallVector<int64_t> ConcatOp::getBoxShape(unsigned index) {
  auto shape = llvm::to_vector(shapeOf(getOperands()[index]));
  if (static_cast<int64_t>(shape.size()) < getType().getRank())
    shape.insert(shape.begin() + getDim(), 1);
  return shape;
}

LogicalResult ConcatOp::verify() {
  ArrayRef<int64_t> to = shapeOf(getResult());
  int64_t dim = getDim(), total = 0;
  if (getOperands().empty() || dim < 0 || dim >= static_cast<int64_t>(to.size()))
    return emitOpError("C1: dim ") << dim << " is not a dimension of the result";
  for (auto [index, operand] : llvm::enumerate(getOperands())) {
    size_t rank = shapeOf(operand).size();
    if ((rank != to.size() && rank + 1 != to.size()) || elementOf(operand) != elementOf(getResult()))
      return emitOpError("C2: ranks and element types must agree");
    SmallVector<int64_t> from = getBoxShape(index);
    for (auto [i, size] : llvm::enumerate(from))
      if (static_cast<int64_t>(i) != dim && size != to[i])
        return emitOpError("C2: operand size ") << size << " along dimension " << i << ", result " << to[i];
    total += from[dim];
  }
  if (total != to[dim])
    return emitOpError("C2: operands add up to ") << total << " along dimension " << dim << ", result has " << to[dim];
  return success();
}

/// C1 to C4 of dt.contract and dt.product.
template <typename Contraction> static LogicalResult checkContraction(Contraction op) {
  auto emitOpError = [&](const Twine &text) { return op.emitOpError(text); };
  auto parts = parseContractSpec(op.getSpec());
  if (!parts)
    return emitOpError("C1: spec \"") << op.getSpec() << "\" must look like \"ab,bc->ac\"";
  const auto &[lhs, rhs, out] = *parts;
  llvm::SmallDenseMap<char, int64_t> sizes;
  for (auto [letters, value] :
       {std::pair<StringRef, Value>(lhs, op.getLhs()), {rhs, op.getRhs()}, {out, op.getResult()}}) {
    ArrayRef<int64_t> shape = shapeOf(value);
    if (letters.size() != shape.size())
      return emitOpError("C1: \"") << letters << "\" names " << letters.size() << " dimensions of " << value.getType();
    for (auto [letter, size] : llvm::zip(letters, shape)) {
      if (letters.count(letter) != 1)
        return emitOpError("C3: letter '") << Twine(letter) << "' appears twice in \"" << letters << "\"";
      auto [it, isNew] = sizes.try_emplace(letter, size);
      if (it->second != size)
        return emitOpError("C2: letter '") << Twine(letter) << "' has sizes " << it->second << " and " << size;
    }
  }
  for (char letter : out)
    if (!lhs.contains(letter) && !rhs.contains(letter))
      return emitOpError("C3: result letter '") << Twine(letter) << "' appears in no operand";
  for (char letter : (lhs + rhs).str())
    if (lhs.contains(letter) + rhs.contains(letter) + out.contains(letter) < 2)
      return emitOpError("C3: letter '") << Twine(letter) << "' appears in only one operand";
  if (elementOf(op.getLhs()) != elementOf(op.getRhs()) || !canSumTo(op.getLhs(), op.getResult()))
    return emitOpError("C4: cannot contract ") << op.getLhs().getType() << " and " << op.getRhs().getType() << " to "
                                               << op.getResult().getType() << ": convert to one element type before";
  return success();
}

LogicalResult ContractOp::verify() { return checkContraction(*this); }

LogicalResult ProductOp::verify() {
  if (failed(checkContraction(*this)))
    return failure();
  int epilogues = bool(getAccumulator()) + bool(getBias()) + bool(getOperand());
  if (epilogues != 1 || (getGelu() && !getBias()) || (getSum() && !getGelu()))
    return emitOpError("C5: must have one of 'onto', 'bias' and 'gelu_grad', 'gelu' only with 'bias', and a second "
                       "result only with 'gelu'");
  for (Value value : {getAccumulator(), getOperand(), getSum()})
    if (value && value.getType() != getResult().getType())
      return emitOpError("C6: ") << value.getType() << " does not match a result of " << getResult().getType();
  if (getBias() &&
      (elementOf(getBias()) != elementOf(getResult()) || shapeOf(getBias()).size() > shapeOf(getResult()).size() ||
       shapeOf(getBias()) != shapeOf(getResult()).take_back(shapeOf(getBias()).size())))
    return emitOpError("C6: a bias of ") << getBias().getType() << " does not have the last dimensions of a result of "
                                         << getResult().getType();
  return success();
}

/// indices' shape followed by the table's width.
static bool isRowsOf(ArrayRef<int64_t> rows, ArrayRef<int64_t> indices, ArrayRef<int64_t> table) {
  return rows.size() == indices.size() + 1 && rows.drop_back() == indices && rows.back() == table.back();
}

LogicalResult GatherOp::verify() {
  if (shapeOf(getTable()).size() != 2)
    return emitOpError("C1: the table must have two dimensions, is ") << getTable().getType();
  if (!isRowsOf(shapeOf(getResult()), shapeOf(getIndices()), shapeOf(getTable())))
    return emitOpError("C2: result ") << getType() << " is not rows of the table for each index";
  return checkSharding(*this, getSharding(), 2);
}

LogicalResult ScatterAddOp::verify() {
  if (shapeOf(getInit()).size() != 2)
    return emitOpError("C1: init must have two dimensions, is ") << getInit().getType();
  if (!isRowsOf(shapeOf(getUpdates()), shapeOf(getIndices()), shapeOf(getInit())))
    return emitOpError("C2: updates ") << getUpdates().getType() << " are not rows of the table for each index";
  return checkSharding(*this, getSharding(), 2);
}

LogicalResult WriteRowsOp::verify() {
  SmallVector<int64_t> init(shapeOf(getInit())), rows(shapeOf(getRows()));
  bool isAlike = init.size() == rows.size() && init.size() >= 3;
  if (isAlike)
    init[1] = rows[1];
  if (!isAlike || init != rows)
    return emitOpError("C1: rows ") << getRows().getType() << " are none of " << getInit().getType();
  if (shapeOf(getPositions()) != ArrayRef(rows).slice(1, 1))
    return emitOpError("C2: needs ") << rows[1] << " positions, has " << getPositions().getType();
  if (elementOf(getRows()) != elementOf(getInit()))
    return emitOpError("C3: rows of ") << elementOf(getRows()) << " are written into " << getInit().getType();
  return success();
}

LogicalResult TagOp::verify() {
  if (static_cast<int64_t>(getDimNames().size()) != getType().getRank())
    return emitOpError("C1: needs one name for each of ") << getType().getRank() << " dimensions";
  return checkSharding(*this, getSharding(), getType().getRank());
}

LogicalResult ReshardOp::verify() { return checkSharding(*this, getSharding(), getType().getRank()); }

// Composites

static LogicalResult checkNorm(Operation *op, Value operand, ValueRange vectors, ValueRange wholes, ValueRange rows) {
  ArrayRef<int64_t> shape = shapeOf(operand);
  if (shape.empty())
    return op->emitOpError("C1: the operand needs a last dimension");
  for (Value vector : vectors)
    if (shapeOf(vector) != shape.take_back())
      return op->emitOpError("C1: ") << vector.getType() << " must have the last dimension's size, " << shape.back();
  for (Value whole : wholes)
    if (shapeOf(whole) != shape)
      return op->emitOpError("C1: ") << whole.getType() << " must have the operand's shape";
  for (Value row : rows)
    if (shapeOf(row) != shape.drop_back())
      return op->emitOpError("C1: ") << row.getType() << " must have the operand's shape less its last dimension";
  return success();
}

LogicalResult LayerNormOp::verify() {
  return checkNorm(*this, getOperand(), {getScale(), getBias()}, getResult(), {getMean(), getRstd()});
}

LogicalResult RmsNormOp::verify() { return checkNorm(*this, getOperand(), getScale(), getResult(), getRstd()); }

LogicalResult SoftmaxCrossEntropyOp::verify() {
  return checkNorm(*this, getLogits(), {}, {}, {getTargets(), getNll(), getLse()});
}

LogicalResult RotaryOp::verify() {
  ArrayRef<int64_t> shape = shapeOf(getOperand());
  if (shape.size() < 3 || shape.back() % 2 != 0)
    return emitOpError("C1: needs [batch, sequence, ..., even head_dim], has ") << getOperand().getType();
  if (countPairs() < 1 || countPairs() > shape.back() / 2)
    return emitOpError("C1: turns ") << countPairs() << " pairs of a dimension of " << shape.back();
  if (shapeOf(getPositions()) != shape.slice(1, 1))
    return emitOpError("C2: needs ") << shape[1] << " positions, has " << getPositions().getType();
  return success();
}

int64_t RotaryOp::countPairs() { return getPairs().value_or(shapeOf(getOperand()).back() / 2); }

dtc::abi::RotaryScaling RotaryOp::getScalingOrNone() {
  return getScaling() ? getScaling()->value() : dtc::abi::RotaryScaling();
}

LogicalResult DropoutOp::verify() {
  if (shapeOf(getKey()) != ArrayRef<int64_t>{4})
    return emitOpError("C1: key must have shape [4], has [") << shapeOf(getKey()) << "]";
  double rate = getRate().convertToDouble();
  if (!(rate >= 0 && rate < 1))
    return emitOpError("C2: rate ") << rate << " is not in [0, 1)";
  return success();
}

template <typename AttentionLike>
static LogicalResult checkAttention(AttentionLike op, Value lse, ValueRange likeQ, ValueRange likeK) {
  ArrayRef<int64_t> q = shapeOf(op.getQ()), k = shapeOf(op.getK());
  if (q.size() != 5 || k.size() != 4 || q[0] != k[0] || q[2] != k[2] || q[4] != k[3])
    return op.emitOpError("C1: q must be [B,S,G,R,E] and k [B,T,G,E]; found ")
           << op.getQ().getType() << " and " << op.getK().getType();
  for (Value value : likeQ)
    if (shapeOf(value) != q)
      return op.emitOpError("C1: ") << value.getType() << " must have q's shape";
  for (Value value : likeK)
    if (shapeOf(value) != k)
      return op.emitOpError("C1: ") << value.getType() << " must have k's shape";
  if (shapeOf(lse) != ArrayRef<int64_t>{q[0], q[2], q[3], q[1]})
    return op.emitOpError("C1: lse must be [B,G,R,S], is ") << lse.getType();
  for (Value value : llvm::concat<const Value>(llvm::to_vector(likeQ), llvm::to_vector(likeK)))
    if (elementOf(value) != elementOf(op.getQ()))
      return op.emitOpError("C4: ") << value.getType() << " must have q's element type " << elementOf(op.getQ());
  if (elementTypeOf(lse.getType()).type != dtc::abi::F32)
    return op.emitOpError("C4: lse must be f32, is ") << lse.getType();
  if (shapeOf(op.getKey()) != ArrayRef<int64_t>{4} || shapeOf(op.getQPositions()) != q.slice(1, 1) ||
      shapeOf(op.getKPositions()) != k.slice(1, 1))
    return op.emitOpError("C2: needs a key of 4 elements and one position for each query and key");
  double dropout = op.getDropout().convertToDouble();
  if (!(dropout >= 0 && dropout < 1))
    return op.emitOpError("C3: dropout ") << dropout << " is not in [0, 1)";
  if (op.getWindow() && (*op.getWindow() < 1 || !op.getCausal()))
    return op.emitOpError("C5: a window of ")
           << *op.getWindow() << " positions" << (op.getCausal() ? "" : " without `causal`");
  if (op.getStarts() && shapeOf(op.getStarts()) != q.take_front(2))
    return op.emitOpError("C6: ") << op.getStarts().getType() << " must have one start for each query";
  if (op.getSoftcap() && !(op.getSoftcapOrNone() > 0))
    return op.emitOpError("C5: soft cap ") << op.getSoftcapOrNone() << " is not positive";
  if (op.getGlobalShape().size() != 4)
    return op.emitOpError("global_shape must be [B, G, R, L]");
  return checkSharding(op, op.getSharding(), 5);
}

LogicalResult AttentionOp::verify() { return checkAttention(*this, getLse(), getOut(), {getK(), getV()}); }

LogicalResult AttentionGradOp::verify() {
  return checkAttention(*this, getLse(), {getOut(), getDOut(), getDQ()}, {getK(), getV(), getDK(), getDV()});
}

// Collectives

static RankedTensorType valueTypeOf(Value value) {
  if (auto future = dyn_cast<FutureType>(value.getType()))
    return future.getValue();
  return cast<RankedTensorType>(value.getType());
}

/// The mesh of the module around `op`, or null.
MeshAttr mlir::dt::getMesh(Operation *op) {
  auto module = isa<ModuleOp>(op) ? cast<ModuleOp>(op) : op->getParentOfType<ModuleOp>();
  return module ? module->getAttrOfType<MeshAttr>("dt.mesh") : MeshAttr();
}

/// C1 of all collectives; gives the number of ranks, or nothing where the mesh is not known here.
static FailureOr<std::optional<int64_t>> checkAxes(Operation *op, ArrayAttr axes) {
  MeshAttr mesh = getMesh(op);
  if (!mesh)
    return std::optional<int64_t>();
  int64_t ranks = 1;
  for (auto [i, attr] : llvm::enumerate(axes)) {
    auto axis = cast<AxisRefAttr>(attr);
    if (axis.getSizeIn(mesh) == 0)
      return op->emitOpError("the mesh has no axis ") << axis.getAxis();
    for (Attribute other : axes.getValue().take_front(i))
      if (axis.overlaps(cast<AxisRefAttr>(other), mesh))
        return op->emitOpError("C1: axis ") << axis.getAxis() << " stands twice";
    ranks *= axis.getSizeIn(mesh);
  }
  return std::optional<int64_t>(ranks);
}

/// Checks that `result` is `operand` with sizes changed as `change` says.
static LogicalResult checkSizes(Operation *op, Value operand, Value result, ArrayAttr axes,
                                function_ref<LogicalResult(SmallVectorImpl<int64_t> &, int64_t)> change) {
  FailureOr<std::optional<int64_t>> ranks = checkAxes(op, axes);
  if (failed(ranks))
    return failure();
  if (!*ranks)
    return success();
  auto from = valueTypeOf(operand), to = valueTypeOf(result);
  SmallVector<int64_t> expected(from.getShape());
  if (failed(change(expected, **ranks)) || to != RankedTensorType::get(expected, from.getElementType()))
    return op->emitOpError("sizes do not agree over ") << **ranks << " ranks: operand " << from << ", result " << to;
  return success();
}

LogicalResult AllReduceOp::verify() {
  if (std::optional<ArrayRef<int32_t>> members = getMembers())
    if (members->empty() || members->front() < 0 || !llvm::is_sorted(*members, std::less_equal<>()))
      return emitOpError("C3: members must ascend");
  return checkSizes(*this, getOperand(), getResult(), getAxes(), [](auto &, int64_t) { return success(); });
}

LogicalResult AllGatherOp::verify() {
  return checkSizes(*this, getOperand(), getResult(), getAxes(), [&](auto &shape, int64_t ranks) {
    if (getDim() >= shape.size())
      return failure();
    shape[getDim()] *= ranks;
    return success();
  });
}

LogicalResult ReduceScatterOp::verify() {
  return checkSizes(*this, getOperand(), getResult(), getAxes(), [&](auto &shape, int64_t ranks) {
    if (getDim() >= shape.size() || shape[getDim()] % ranks != 0)
      return failure();
    shape[getDim()] /= ranks;
    return success();
  });
}

LogicalResult AllToAllOp::verify() {
  if (getSplitDim() == getConcatDim())
    return emitOpError("C2: splits and concatenates dimension ") << getSplitDim();
  return checkSizes(*this, getOperand(), getResult(), getAxes(), [&](auto &shape, int64_t ranks) {
    if (getSplitDim() >= shape.size() || getConcatDim() >= shape.size() || shape[getSplitDim()] % ranks != 0)
      return failure();
    shape[getSplitDim()] /= ranks;
    shape[getConcatDim()] *= ranks;
    return success();
  });
}

LogicalResult ShardSliceOp::verify() {
  return checkSizes(*this, getOperand(), getResult(), getAxes(), [&](auto &shape, int64_t ranks) {
    if (getDim() >= shape.size())
      return failure();
    shape[getDim()] = (shape[getDim()] + ranks - 1) / ranks;
    return success();
  });
}

LogicalResult WaitOp::verify() {
  if (getFuture().getType().getValue() != getResult().getType())
    return emitOpError("waits for ") << getFuture().getType() << " but gives " << getResult().getType();
  return success();
}

static LogicalResult verifyHostCopy(Operation *op) {
  Type result = op->getResult(0).getType();
  if (auto future = dyn_cast<FutureType>(result))
    result = future.getValue();
  if (result != op->getOperand(0).getType())
    return op->emitOpError("C1: copies ") << op->getOperand(0).getType() << " but gives " << op->getResult(0).getType();
  return success();
}
LogicalResult OffloadOp::verify() { return verifyHostCopy(*this); }
LogicalResult FetchOp::verify() {
  Operation *copy = getOperand().getDefiningOp();
  if (auto wait = dyn_cast_or_null<WaitOp>(copy))
    copy = wait.getFuture().getDefiningOp();
  if (!isa_and_nonnull<OffloadOp>(copy))
    return emitOpError("C2: reads what no dt.offload has made");
  return verifyHostCopy(*this);
}
bool OffloadOp::isToHost() { return true; }
bool FetchOp::isToHost() { return false; }

// The collective interface is the same for all of them.
static SmallVector<AxisRefAttr> axesOf(ArrayAttr axes) {
  return llvm::map_to_vector(axes, [](Attribute axis) { return cast<AxisRefAttr>(axis); });
}
SmallVector<AxisRefAttr> AllReduceOp::getCollectiveAxes() { return axesOf(getAxes()); }
SmallVector<AxisRefAttr> AllGatherOp::getCollectiveAxes() { return axesOf(getAxes()); }
SmallVector<AxisRefAttr> ReduceScatterOp::getCollectiveAxes() { return axesOf(getAxes()); }
SmallVector<AxisRefAttr> AllToAllOp::getCollectiveAxes() { return axesOf(getAxes()); }
RankedTensorType AllReduceOp::getValueType() { return valueTypeOf(getResult()); }
RankedTensorType AllGatherOp::getValueType() { return valueTypeOf(getResult()); }
RankedTensorType ReduceScatterOp::getValueType() { return valueTypeOf(getResult()); }
RankedTensorType AllToAllOp::getValueType() { return valueTypeOf(getResult()); }
