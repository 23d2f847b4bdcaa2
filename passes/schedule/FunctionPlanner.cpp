// Gives the values of one function homes.
#include "passes/schedule/FunctionPlanner.h"

#include "dialect/IR/Names.h"

using namespace mlir;
using namespace mlir::dt;

namespace dtc {

Reads::Reads(func::FuncOp function, Layouts &layouts) {
  for (auto [position, op] : llvm::enumerate(function.front())) {
    positions[&op] = position;
    for (Value operand : op.getOperands())
      last[layouts.rootOf(operand)] = position;
  }
}

int Reads::lastRead(Value root) const {
  auto it = last.find(root);
  return it == last.end() ? -1 : it->second;
}

bool readsOldContents(BlockArgument argument, OpResult result, const Reads &reads, Layouts &layouts, Kernels &kernels) {
  Operation *op = result.getOwner();
  int last = reads.lastRead(argument), position = reads.positionOf(op);
  if (last != position)
    return last > position;
  SmallVector<unsigned> aligned = kernels.inPlaceOperands(op, result.getResultNumber());
  for (auto [index, operand] : llvm::enumerate(op->getOperands()))
    if (layouts.rootOf(operand) == argument && !llvm::is_contained(aligned, index))
      return true;
  return false;
}

FunctionPlanner::FunctionPlanner(MemoryPlan &plan, func::FuncOp function, Kernels &kernels)
    : plan(plan), function(function), kernels(kernels), layouts(plan.layoutsOf(function)), reads(function, layouts) {}

void FunctionPlanner::bindArguments() {
  for (BlockArgument argument : function.getArguments()) {
    int tensor = plan.nameTensor(argumentPort(function, argument.getArgNumber()), argument.getType());
    plan.homes[argument] = tensor;
    argumentOf[tensor] = argument;
  }
}

void FunctionPlanner::bindResults() {
  Operation *terminator = function.front().getTerminator();
  for (OpOperand &result : terminator->getOpOperands()) {
    int tensor = plan.nameTensor(resultPort(function, result.getOperandNumber()), result.get().getType());
    Value root = layouts.rootOf(result.get());
    if (!isa<BlockArgument>(root))
      bindResult(root, tensor);
    else if (plan.homes[root] != tensor)
      plan.moveInto(tensor, plan.homes[root]);
  }
}

/// `root` is written straight into the named tensor; so is what it must be written in place of.
void FunctionPlanner::bindResult(Value root, int tensor) {
  boundTo[root] = tensor;
  auto result = dyn_cast<OpResult>(root);
  Operation *op = result.getOwner();
  auto library = dyn_cast<LibraryOpInterface>(op);
  if (library && library.mustBeInPlace(result.getResultNumber())) {
    Value operand = layouts.rootOf(op->getOperand(library.getInPlaceOperand(result.getResultNumber())));
    if (!isa<BlockArgument>(operand))
      bindResult(operand, tensor);
    return;
  }
  takeOverGradient(result, tensor);
  if (isa<CollectiveOpInterface>(op))
    bindSource(op, result.getResultNumber(), tensor);
}

/// A reduced gradient takes over the gradient's memory when nothing else reads that.
void FunctionPlanner::takeOverGradient(OpResult result, int tensor) {
  PortAttr reduced = plan.named[tensor].port;
  if (reduced.getKind() != PortKind::ReducedGradient || plan.named[tensor].owner >= 0)
    return;
  auto gradient = plan.indexOf.find({PortKind::Gradient, reduced.getName(), reduced.getSlot()});
  if (gradient != plan.indexOf.end() && plan.named[gradient->second].bytes() == bytesOf(result.getType()) &&
      mayOverwrite(result, gradient->second))
    plan.moveInto(tensor, gradient->second);
}

/// What a collective reduces in place is computed where its result lies.
void FunctionPlanner::bindSource(Operation *op, unsigned result, int tensor) {
  for (unsigned index : kernels.inPlaceOperands(op, result)) {
    const Place &place = layouts.placeOf(op->getOperand(index));
    auto source = dyn_cast<OpResult>(place.root);
    if (source && place.isWhole() && !boundTo.contains(source) && reads.lastRead(source) <= reads.positionOf(op) &&
        mayOverwrite(source, tensor))
      bindResult(source, tensor);
  }
}

/// Whether a named tensor's memory is free when `result` is written: no argument that lies there is read later.
bool FunctionPlanner::mayOverwrite(OpResult result, int tensor) {
  auto isRead = [&](int other) {
    BlockArgument argument = argumentOf.lookup(other);
    return argument && readsOldContents(argument, result, reads, layouts, kernels);
  };
  int owner = plan.ownerIndexOf(tensor);
  return !isRead(owner) && llvm::none_of(plan.named[owner].tenants, isRead);
}

MemoryPlan::Home FunctionPlanner::newTemporary(Value value, int position) {
  auto &temporaries = plan.temporaries[function];
  temporaries.push_back({bytesOf(value.getType()), position, position, false, value});
  return -static_cast<int>(temporaries.size());
}

bool FunctionPlanner::canTakeOver(Operation *op, Value operand, uint64_t bytes, ArrayRef<unsigned> aligned) {
  const Place &place = layouts.placeOf(operand);
  auto home = plan.homes.find(place.root);
  if (home == plan.homes.end() || home->second >= 0 || taken.contains(home->second) || !place.isWhole() ||
      bytesOf(place.root.getType()) != bytes)
    return false;
  int position = reads.positionOf(op);
  for (auto [index, other] : llvm::enumerate(op->getOperands()))
    if (layouts.rootOf(other) == place.root && !llvm::is_contained(aligned, index))
      return false;
  return plan.temporaries[function][-1 - home->second].last <= position;
}

MemoryPlan::Home FunctionPlanner::chooseHome(Operation *op, unsigned result) {
  Value value = op->getResult(result);
  if (auto bound = boundTo.find(value); bound != boundTo.end())
    return bound->second;
  SmallVector<unsigned> aligned = kernels.inPlaceOperands(op, result);
  for (unsigned index : aligned)
    if (canTakeOver(op, op->getOperand(index), bytesOf(value.getType()), aligned))
      return plan.homes[layouts.rootOf(op->getOperand(index))];
  return newTemporary(value, reads.positionOf(op));
}

void FunctionPlanner::markShared(Value value) {
  MemoryPlan::Home home = plan.homes[layouts.rootOf(value)];
  if (home >= 0)
    plan.ownerOf(home).shared = true;
  else
    plan.temporaries[function][-1 - home].shared = true;
}

void FunctionPlanner::keepUntil(Value value, int position) {
  MemoryPlan::Home home = plan.homes[layouts.rootOf(value)];
  if (home < 0) {
    int &last = plan.temporaries[function][-1 - home].last;
    last = std::max(last, position);
  }
}

LogicalResult FunctionPlanner::assign(Operation *op) {
  taken.clear();
  for (OpResult result : op->getResults()) {
    Value root = layouts.rootOf(result);
    if (root != result && plan.homes.contains(root))
      continue; // a view, or a further part of something being assembled
    MemoryPlan::Home home = root == result           ? chooseHome(op, result.getResultNumber())
                            : boundTo.contains(root) ? boundTo[root]
                                                     : newTemporary(root, reads.positionOf(op));
    if (plan.homes.try_emplace(root, home).second == false)
      continue;
    taken.insert(home);
    if (home < 0) {
      Temporary &temporary = plan.temporaries[function][-1 - home];
      temporary.last = std::max({temporary.last, reads.positionOf(op), reads.lastRead(root)});
    }
  }
  auto library = dyn_cast<LibraryOpInterface>(op);
  for (OpResult result : op->getResults())
    if (library && library.mustBeInPlace(result.getResultNumber())) {
      Value operand = op->getOperand(library.getInPlaceOperand(result.getResultNumber()));
      if (plan.homes[layouts.rootOf(operand)] != plan.homes[layouts.rootOf(result)])
        return op->emitError("cannot be done in place: its first operand is still needed; run dt-explicit-copies");
    }
  if (isa<CollectiveOpInterface>(op)) {
    markShared(op->getOperand(0));
    markShared(op->getResult(0));
    // A collective may read its operand until it has been waited for.
    for (Operation *user : op->getResult(0).getUsers())
      keepUntil(op->getOperand(0), reads.positionOf(user));
  }
  if (auto send = dyn_cast<SendOp>(op))
    markShared(send.getOperand());
  if (auto receive = dyn_cast<RecvOp>(op))
    markShared(receive.getResult());
  return success();
}

LogicalResult FunctionPlanner::run() {
  bindArguments();
  bindResults();
  for (Operation &op : function.front().without_terminator())
    if (failed(assign(&op)))
      return failure();
  return success();
}

} // namespace dtc
