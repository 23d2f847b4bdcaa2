// dt-insert-reshards: storage and compute placement are joined where state is read and written; see Passes.td.
#include "dialect/IR/Names.h"
#include "dialect/IR/Ops.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
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
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      results.push_back(resultPort(function, i));
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
      // What is reduced once a step is reduced to where the update wants it; elsewhere gradients are only added to.
      PortAttr reduced = findResult(PortKind::ReducedGradient, port.getName());
      if (reduced && (!port.isPlaced() || port.getStored() != reduced.getComputed()))
        readOnce(argument, reduced.getComputed());
      return;
    }
    if (!port.isPlaced() || port.getComputed() == port.getStored())
      return;
    if (findResult(port.getKind(), port.getName())) // is updated
      return readOnce(argument, port.getComputed());
    for (OpOperand &use : llvm::make_early_inc_range(argument.getUses()))
      use.set(reshard(argument, port.getComputed(), use.getOwner()));
  }

  /// The result of this kind for this parameter, or null.
  PortAttr findResult(PortKind kind, StringAttr name) const {
    for (PortAttr port : results)
      if (port && port.getKind() == kind && port.getName() == name)
        return port;
    return {};
  }

  void readOnce(BlockArgument argument, ShardingAttr to) {
    if (argument.use_empty())
      return;
    Operation *first = *argument.user_begin();
    for (Operation *user : argument.getUsers())
      if (user->isBeforeInBlock(first))
        first = user;
    Value moved = reshard(argument, to, first);
    argument.replaceAllUsesExcept(moved, moved.getDefiningOp());
  }

  void write(OpOperand &result, PortAttr port) {
    if (!port || !port.isPlaced() || port.getComputed() == port.getStored())
      return;
    OpOperand *moved = &result;
    // A micro-batch's gradient goes to where the sum lies, and is added there.
    if (auto sum = result.get().getDefiningOp<AddOp>(); sum && port.getKind() == PortKind::Gradient)
      for (OpOperand &term : sum->getOpOperands())
        if (isa<BlockArgument>(sum->getOperand(1 - term.getOperandNumber())))
          moved = &term;
    // As soon as it is there, so that the whole need not live on.
    Value value = moved->get();
    OpBuilder builder(moved->getOwner());
    builder.setInsertionPointAfterValue(value);
    moved->set(reshard(builder, value, port.getStored(), moved->getOwner()));
  }

  Value reshard(Value value, ShardingAttr to, Operation *user) {
    OpBuilder builder(user);
    return reshard(builder, value, to, user);
  }

  Value reshard(OpBuilder &builder, Value value, ShardingAttr to, Operation *user) {
    auto op = ReshardOp::create(builder, value.getLoc(), value, to);
    Operation *layered = user->hasAttr(layerAttr) ? user : value.getDefiningOp();
    if (Attribute layer = layered ? layered->getAttr(layerAttr) : Attribute())
      op->setAttr(layerAttr, layer);
    return op;
  }

  func::FuncOp function;
  SmallVector<PortAttr> results;
};

struct InsertReshards : dtc::impl::InsertReshardsBase<InsertReshards> {
  void runOnOperation() override { Inserter(getOperation()).run(); }
};

} // namespace
