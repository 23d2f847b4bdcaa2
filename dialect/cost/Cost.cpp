// Floating-point operations of each operation. A multiply-add counts two; moving and comparing indices counts none; an
// elementary function counts one, and a composite elementwise function as many as its formula has operations.
#include "dialect/cost/Cost.h"
#include "dialect/IR/ElementTypes.h"
#include "dialect/IR/Ops.h"

using namespace mlir;
using namespace mlir::dt;

static double elements(Value value) {
  if (auto future = dyn_cast<FutureType>(value.getType()))
    return double(future.getValue().getNumElements());
  return double(cast<RankedTensorType>(value.getType()).getNumElements());
}

#define DT_FLOPS_PER_ELEMENT(Op, flops)                                                                                \
  double Op::getFlops() { return (flops)*elements(getResult()); }
DT_FLOPS_PER_ELEMENT(NegOp, 1)
DT_FLOPS_PER_ELEMENT(ExpOp, 1)
DT_FLOPS_PER_ELEMENT(LogOp, 1)
DT_FLOPS_PER_ELEMENT(SqrtOp, 1)
DT_FLOPS_PER_ELEMENT(RsqrtOp, 1)
DT_FLOPS_PER_ELEMENT(TanhOp, 1)
DT_FLOPS_PER_ELEMENT(ErfOp, 1)
DT_FLOPS_PER_ELEMENT(LogisticOp, 4)             // 1 / (1 + exp(-x))
DT_FLOPS_PER_ELEMENT(GeluOp, getTanh() ? 9 : 5) // x/2 (1 + tanh(c (x + d x³))), x/2 (1 + erf(c x))
DT_FLOPS_PER_ELEMENT(GeluGradOp, getTanh() ? 16 : 11)
DT_FLOPS_PER_ELEMENT(SiluOp, 5)
DT_FLOPS_PER_ELEMENT(AddOp, 1)
DT_FLOPS_PER_ELEMENT(SubOp, 1)
DT_FLOPS_PER_ELEMENT(MulOp, 1)
DT_FLOPS_PER_ELEMENT(DivOp, 1)
DT_FLOPS_PER_ELEMENT(MaxOp, 1)
DT_FLOPS_PER_ELEMENT(MinOp, 1)
DT_FLOPS_PER_ELEMENT(AndOp, 0)
DT_FLOPS_PER_ELEMENT(CompareOp, 1)
DT_FLOPS_PER_ELEMENT(SelectOp, 0)
DT_FLOPS_PER_ELEMENT(ConvertOp, 0)
DT_FLOPS_PER_ELEMENT(ConstantOp, 0)
DT_FLOPS_PER_ELEMENT(IotaOp, 0)
DT_FLOPS_PER_ELEMENT(RandomOp, 1) // the conversion to floating point; the mixing is integer arithmetic
DT_FLOPS_PER_ELEMENT(BroadcastOp, 0)
DT_FLOPS_PER_ELEMENT(ReshapeOp, 0)
DT_FLOPS_PER_ELEMENT(TransposeOp, 0)
DT_FLOPS_PER_ELEMENT(SliceOp, 0)
DT_FLOPS_PER_ELEMENT(PadOp, 0)
DT_FLOPS_PER_ELEMENT(ConcatOp, 0)
DT_FLOPS_PER_ELEMENT(GatherOp, 0)
DT_FLOPS_PER_ELEMENT(TagOp, 0)
DT_FLOPS_PER_ELEMENT(BarrierOp, 0)
DT_FLOPS_PER_ELEMENT(ReshardOp, 0)
DT_FLOPS_PER_ELEMENT(CopyOp, 0)
DT_FLOPS_PER_ELEMENT(OffloadOp, 0)
DT_FLOPS_PER_ELEMENT(FetchOp, 0)
DT_FLOPS_PER_ELEMENT(UpdateSliceOp, 0)
DT_FLOPS_PER_ELEMENT(WriteRowsOp, 0)
DT_FLOPS_PER_ELEMENT(RotaryOp, 3) // two products and a sum; the angles belong to positions
DT_FLOPS_PER_ELEMENT(AllGatherOp, 0)
DT_FLOPS_PER_ELEMENT(AllToAllOp, 0)
DT_FLOPS_PER_ELEMENT(ShardSliceOp, 0)
DT_FLOPS_PER_ELEMENT(WaitOp, 0)
DT_FLOPS_PER_ELEMENT(AwaitOp, 0)
DT_FLOPS_PER_ELEMENT(RecvOp, 0)
#undef DT_FLOPS_PER_ELEMENT

double ReduceOp::getFlops() { return elements(getOperand()); }
double ScatterAddOp::getFlops() { return elements(getUpdates()); }
double AllReduceOp::getFlops() { return elements(getOperand()); }
double SendOp::getFlops() { return 0; }
double ReduceScatterOp::getFlops() { return elements(getOperand()); }

/// A formula's operations have rank 0: their work is that of one index.
double ApplyOp::getFlops() {
  double once = 0;
  for (auto op : lookUpFormula().getBody().getOps<CostOpInterface>())
    once += op.getFlops();
  return once * elements(getResults().front());
}

/// Product of the sizes of all letters, times two.
template <typename Contraction> static double contractionFlops(Contraction op) {
  ContractSpec spec = *parseContractSpec(op.getSpec());
  double product = 2 * elements(op.getLhs());
  ArrayRef<int64_t> rhsShape = cast<RankedTensorType>(op.getRhs().getType()).getShape();
  for (auto [letter, size] : llvm::zip(spec.rhs, rhsShape))
    if (!spec.lhs.contains(letter))
      product *= double(size);
  return product;
}

double ContractOp::getFlops() { return contractionFlops(*this); }

/// The contraction's, and those of the operations that the epilogue stands for.
double ProductOp::getFlops() {
  double each = getOperand() ? 16 : getGelu() ? 1 + 9 : 1;
  return contractionFlops(*this) + each * elements(getResult());
}

/// Pairs of query and key, of all heads, times the width of a head. A query sees no more keys than its window has.
template <typename AttentionLike> static double pairElements(AttentionLike op) {
  int64_t keys = op.getK().getType().getDimSize(1);
  return elements(op.getQ()) * double(std::min<int64_t>(keys, op.getWindow().value_or(keys)));
}

/// Scores and the weighted sum of values: two products.
double AttentionOp::getFlops() { return 2 * 2 * pairElements(*this); }

/// Scores again, and the gradients of values, probabilities, queries and keys: five products.
double AttentionGradOp::getFlops() { return 5 * 2 * pairElements(*this); }

//===----------------------------------------------------------------------===//
// Memory and classes
//===----------------------------------------------------------------------===//

double dt::storedBytes(Type type) {
  if (auto future = dyn_cast<FutureType>(type))
    type = future.getValue();
  return isa<RankedTensorType>(type) ? static_cast<double>(bytesOf(type)) : 0;
}

double dt::resultBytes(Operation *op) {
  double bytes = 0;
  for (Type type : op->getResultTypes())
    bytes += storedBytes(type);
  return bytes;
}

WorkClass ContractOp::getWorkClass() { return WorkClass::Product; }
WorkClass ProductOp::getWorkClass() { return WorkClass::Product; }
WorkClass AttentionOp::getWorkClass() { return WorkClass::Attention; }
WorkClass AttentionGradOp::getWorkClass() { return WorkClass::Attention; }
WorkClass GatherOp::getWorkClass() { return WorkClass::Indexed; }
WorkClass ScatterAddOp::getWorkClass() { return WorkClass::Indexed; }
WorkClass ReduceOp::getWorkClass() { return WorkClass::Reduction; }
WorkClass CopyOp::getWorkClass() { return WorkClass::Movement; }
WorkClass OffloadOp::getWorkClass() { return WorkClass::Movement; }
WorkClass FetchOp::getWorkClass() { return WorkClass::Movement; }
WorkClass UpdateSliceOp::getWorkClass() { return WorkClass::Movement; }
WorkClass WriteRowsOp::getWorkClass() { return WorkClass::Movement; }
WorkClass ShardSliceOp::getWorkClass() { return WorkClass::Movement; }
WorkClass AllReduceOp::getWorkClass() { return WorkClass::Communication; }
WorkClass SendOp::getWorkClass() { return WorkClass::Communication; }
WorkClass RecvOp::getWorkClass() { return WorkClass::Communication; }
WorkClass AllGatherOp::getWorkClass() { return WorkClass::Communication; }
WorkClass ReduceScatterOp::getWorkClass() { return WorkClass::Communication; }
WorkClass AllToAllOp::getWorkClass() { return WorkClass::Communication; }

/// What is read of an operand of which the result holds only a part: no more than that part.
template <typename Op> static double partRead(Op op, unsigned operand, unsigned whole) {
  double bytes = storedBytes(op->getOperand(operand).getType());
  return operand == whole ? std::min(bytes, resultBytes(op)) : bytes;
}
double SliceOp::getBytesRead(unsigned operand) { return partRead(*this, operand, 0); }
double ShardSliceOp::getBytesRead(unsigned operand) { return partRead(*this, operand, 0); }
double GatherOp::getBytesRead(unsigned operand) { return partRead(*this, operand, 0); }

/// The rows of a table that is added to in place which the updates name, in bytes: at most as many as there are
/// updates.
static double touchedRows(ScatterAddOp op) {
  return std::min(storedBytes(op.getResult().getType()), storedBytes(op.getUpdates().getType()));
}
double ScatterAddOp::getBytesRead(unsigned operand) {
  return operand == 0 ? touchedRows(*this) : storedBytes(getOperand(operand).getType());
}
double ScatterAddOp::getBytesWritten() { return touchedRows(*this); }

/// In place: the box alone.
double UpdateSliceOp::getBytesRead(unsigned operand) {
  return getOperand(operand) == getInit() ? 0 : storedBytes(getOperand(operand).getType());
}
double UpdateSliceOp::getBytesWritten() { return storedBytes(getUpdate().getType()); }

/// In place: the rows alone.
double WriteRowsOp::getBytesRead(unsigned operand) {
  return operand == 0 ? 0 : storedBytes(getOperand(operand).getType());
}
double WriteRowsOp::getBytesWritten() { return storedBytes(getRows().getType()); }

Work &Work::operator+=(const Work &other) {
  kind = std::max(kind, other.kind);
  flops += other.flops;
  bytesRead += other.bytesRead;
  bytesWritten += other.bytesWritten;
  return *this;
}

static FailureOr<CostOpInterface> requireCost(Operation *op) {
  auto cost = dyn_cast<CostOpInterface>(op);
  if (!cost)
    return op->emitOpError("has no cost: it does not implement CostOpInterface");
  return cost;
}

FailureOr<Work> dt::workOf(Operation *op) {
  FailureOr<CostOpInterface> cost = requireCost(op);
  if (failed(cost))
    return failure();
  Work work{cost->getWorkClass(), cost->getFlops(), 0, cost->getBytesWritten()};
  for (unsigned operand = 0; operand < op->getNumOperands(); ++operand)
    work.bytesRead += cost->getBytesRead(operand);
  return work;
}

/// What the readers of an argument within a kernel read of it, together: the most that any one of them reads.
static FailureOr<double> bytesReadOf(BlockArgument argument) {
  double most = 0;
  for (OpOperand &use : argument.getUses()) {
    bool isYielded = use.getOwner()->hasTrait<OpTrait::IsTerminator>();
    FailureOr<CostOpInterface> cost = isYielded ? CostOpInterface() : requireCost(use.getOwner());
    if (failed(cost))
      return failure();
    most = std::max(most, isYielded ? storedBytes(argument.getType()) : cost->getBytesRead(use.getOperandNumber()));
  }
  return most;
}

FailureOr<Work> dt::workOf(KernelOp kernel) {
  Block &body = kernel.getBody().front();
  Work work;
  for (Operation &op : body.without_terminator()) {
    FailureOr<CostOpInterface> cost = requireCost(&op);
    if (failed(cost))
      return failure();
    work += {cost->getWorkClass(), cost->getFlops(), 0, 0};
  }
  for (BlockArgument argument : body.getArguments()) {
    FailureOr<double> bytes = bytesReadOf(argument);
    if (failed(bytes))
      return failure();
    work.bytesRead += *bytes;
  }
  for (Type type : body.getTerminator()->getOperandTypes())
    work.bytesWritten += storedBytes(type);
  return work;
}

static FailureOr<double> flopsOf(Operation &op) {
  FailureOr<CostOpInterface> cost = requireCost(&op);
  if (failed(cost))
    return failure();
  return cost->getFlops();
}

template <typename Filter> static FailureOr<double> sumFlops(func::FuncOp function, Filter counts) {
  double sum = 0;
  for (Operation &op : function.getBody().front().without_terminator()) {
    if (!counts(op))
      continue;
    FailureOr<double> flops = flopsOf(op);
    if (failed(flops))
      return failure();
    sum += *flops;
  }
  return sum;
}

FailureOr<double> dt::countFlops(func::FuncOp function) {
  return sumFlops(function, [](Operation &) { return true; });
}

FailureOr<double> dt::countModelFlops(func::FuncOp loss) {
  FailureOr<double> forward = sumFlops(loss, [](Operation &op) { return isa<LibraryOpInterface>(op); });
  if (failed(forward))
    return failure();
  return 3 * *forward;
}
