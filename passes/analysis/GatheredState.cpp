// State that is gathered.
#include "passes/analysis/GatheredState.h"

#include "dialect/IR/Marks.h"
#include "dialect/IR/Names.h"

#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace mlir::dt;

bool dtc::isView(Operation *op) { return isa<ViewOpInterface>(op) && op->getNumOperands() == 1; }

/// The only stored tensor that a value is made from, or null; `steps` receives what makes it, the last first.
static BlockArgument findState(Value value, SmallVectorImpl<Operation *> &steps) {
  for (Operation *op = value.getDefiningOp(); op; op = value.getDefiningOp()) {
    if (op->getNumOperands() != 1 || op->getNumResults() != 1)
      return nullptr;
    steps.push_back(op);
    value = op->getOperand(0);
  }
  auto argument = cast<BlockArgument>(value);
  PortAttr port = portOf(argument);
  return port && port.isState() ? argument : nullptr;
}

bool dtc::isOfState(Value value) {
  SmallVector<Operation *> steps;
  return findState(value, steps) != nullptr;
}

/// All that determines what an operation does to its operand.
static DictionaryAttr meaningOf(Operation *op) {
  NamedAttrList attributes(op->getAttrDictionary());
  for (StringRef name : {StringRef(layerAttr), StringRef(directionAttr), StringRef("reason"), StringRef("remedy")})
    attributes.erase(name);
  return attributes.getDictionary(op->getContext());
}

bool dtc::isSameState(Value a, Value b) {
  SmallVector<Operation *> stepsOfA, stepsOfB;
  BlockArgument stored = findState(a, stepsOfA);
  if (!stored || findState(b, stepsOfB) != stored)
    return false;
  for (auto *steps : {&stepsOfA, &stepsOfB})
    llvm::erase_if(*steps, [](Operation *op) { return isa<BarrierOp>(op); });
  return llvm::equal(stepsOfA, stepsOfB, [](Operation *left, Operation *right) {
    return left->getName() == right->getName() && left->getResultTypes() == right->getResultTypes() &&
           meaningOf(left) == meaningOf(right);
  });
}

std::optional<dtc::GatheredState> dtc::findGatheredState(Operation *op) {
  if (!isa<CollectiveOpInterface>(op) || isa<FutureType>(op->getResult(0).getType()))
    return std::nullopt;
  GatheredState result;
  result.stored = findState(op->getResult(0), result.steps);
  return result.stored ? std::optional(std::move(result)) : std::nullopt;
}

/// Whether a value, or a view of it, is returned or goes on to other ranks.
static bool leaves(Value value) {
  return llvm::any_of(value.getUsers(), [](Operation *user) {
    return isa<CollectiveOpInterface>(user) || user->hasTrait<OpTrait::IsTerminator>() ||
           (dtc::isView(user) && leaves(user->getResult(0)));
  });
}

std::vector<dtc::GatheredState> dtc::findGatheredState(Block &block) {
  std::vector<GatheredState> found;
  DenseSet<Operation *> onTheWay; // on the way to a later collective
  for (Operation &op : block)
    if (std::optional<GatheredState> state = findGatheredState(&op)) {
      onTheWay.insert(std::next(state->steps.begin()), state->steps.end());
      if (!state->value().use_empty() && !leaves(state->value()))
        found.push_back(std::move(*state));
    }
  std::erase_if(found, [&](const GatheredState &state) { return onTheWay.contains(state.steps.front()); });
  return found;
}
