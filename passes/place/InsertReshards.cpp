// dt-insert-reshards: connects storage and compute placement where state is read and written; see Passes.td.
#include "dialect/IR/ElementTypes.h"
#include "dialect/IR/Marks.h"
#include "dialect/IR/Names.h"
#include "dialect/IR/Ops.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "passes/analysis/FirstUser.h"
#include "passes/place/Passes.h"

namespace dtc {
#define GEN_PASS_DEF_INSERTRESHARDS
#include "passes/place/Passes.h.inc"
} // namespace dtc

using namespace mlir;
using namespace mlir::dt;

namespace {

/// One function's reshards.
class Inserter {
public:
  explicit Inserter(func::FuncOp function) : function(function) {
    for (unsigned i = 0; i < function.getNumResults(); ++i) {
      results.push_back(resultPort(function, i));
      if (results.back())
        byIdentity[results.back().identity()] = results.back();
    }
  }

  void run() {
    for (BlockArgument argument : function.getArguments())
      read(argument, argumentPort(function, argument.getArgNumber()));
    Operation *terminator = function.front().getTerminator();
    for (auto [port, operand] : llvm::zip_equal(results, terminator->getOpOperands()))
      write(operand, port);
  }

private:
  void read(BlockArgument argument, PortAttr port) {
    if (!port)
      return;
    if (port.getKind() == PortKind::Gradient) {
      // A gradient that is reduced once a step is reduced to where the update wants it; other functions only add to
      // gradients.
      PortAttr reduced = byIdentity.lookup({PortKind::ReducedGradient, port.getName(), port.getSlot()});
      if (reduced && (!port.isPlaced() || port.getStored() != reduced.getComputed()))
        readOnce(argument, reduced.getComputed());
      return;
    }
    if (!port.isPlaced() || port.getComputed() == port.getStored())
      return;
    if (byIdentity.contains(port.identity())) // is updated
      return readOnce(argument, port.getComputed());
    for (OpOperand &use : llvm::make_early_inc_range(argument.getUses()))
      for (OpOperand *read : readsOf(use))
        read->set(reshard(read->get(), port.getComputed(), read->getOwner()));
  }

  /// The use itself, or, where it converts to a type of fewer bytes, the uses of the result: the type is converted
  /// first, then the data moves.
  static SmallVector<OpOperand *> readsOf(OpOperand &use) {
    if (!changesWidth(use.getOwner(), /*narrows=*/true))
      return {&use};
    return llvm::map_to_vector(use.getOwner()->getUses(), [](OpOperand &read) { return &read; });
  }

  /// Whether an operation changes the width of elements and nothing else.
  static bool changesWidth(Operation *op, bool narrows) {
    if (!isa_and_nonnull<ElementwiseOpInterface>(op) || op->getNumOperands() != 1)
      return false;
    uint64_t before = bytesOf(op->getOperand(0).getType()), after = bytesOf(op->getResult(0).getType());
    return narrows ? after < before : after > before;
  }

  void readOnce(BlockArgument argument, ShardingAttr to) {
    Value value = argument;
    if (argument.hasOneUse() && changesWidth(*argument.user_begin(), /*narrows=*/true))
      value = argument.user_begin()->getResult(0);
    Operation *first = dtc::firstUser(value);
    if (!first)
      return;
    Value moved = reshard(value, to, first);
    value.replaceAllUsesExcept(moved, moved.getDefiningOp());
  }

  void write(OpOperand &result, PortAttr port) {
    if (!port || !port.isPlaced() || port.getComputed() == port.getStored())
      return;
    OpOperand *moved = &result;
    // What is added to the tensor moves to where the tensor is, and is added there.
    if (Operation *sum = result.get().getDefiningOp(); sum && sum->getNumOperands() == 2)
      for (OpOperand &term : sum->getOpOperands())
        if (isSumSoFar(sum->getOperand(1 - term.getOperandNumber()), port))
          moved = &term;
    // What is widened at the end moves before it is widened.
    if (Operation *made = moved->get().getDefiningOp(); changesWidth(made, /*narrows=*/false) && made->hasOneUse())
      moved = &made->getOpOperand(0);
    // As soon as the value is there, so that the whole tensor need not live longer.
    Value value = moved->get();
    OpBuilder builder(moved->getOwner());
    builder.setInsertionPointAfterValue(value);
    moved->set(reshard(builder, value, port.getStored(), moved->getOwner()));
  }

  /// Whether the value is the argument that holds a gradient of earlier micro-batches.
  bool isSumSoFar(Value value, PortAttr port) const {
    auto argument = dyn_cast<BlockArgument>(value);
    PortAttr own = argument ? argumentPort(function, argument.getArgNumber()) : PortAttr();
    return own && own.getKind() == PortKind::Gradient && own.identity() == port.identity();
  }

  Value reshard(Value value, ShardingAttr to, Operation *user) {
    OpBuilder builder(user);
    return reshard(builder, value, to, user);
  }

  Value reshard(OpBuilder &builder, Value value, ShardingAttr to, Operation *user) {
    auto op = ReshardOp::create(builder, value.getLoc(), value, to);
    mark(op, marksOf(user));
    mark(op, marksOf(value));
    return op;
  }

  func::FuncOp function;
  SmallVector<PortAttr> results;
  DenseMap<PortIdentity, PortAttr> byIdentity; ///< the results
};

struct InsertReshards : dtc::impl::InsertReshardsBase<InsertReshards> {
  void runOnOperation() override { Inserter(getOperation()).run(); }
};

} // namespace
