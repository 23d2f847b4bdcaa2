// Reads a layer's operations into plain numbers.
#include "passes/pipelines/search/LayerProblem.h"

#include "dialect/IR/Marks.h"
#include "dialect/IR/Names.h"
#include "dialect/cost/Cost.h"
#include "passes/analysis/GatheredState.h"
#include "passes/analysis/StoredValues.h"
#include "passes/keep/recompute/ValueNames.h"
#include "passes/schedule/ReadStep.h"
#include "passes/schedule/emit/EmitMarks.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mlir::dt;

namespace dtc {

namespace {

bool isOf(Operation *op, bool forward) {
  DirectionAttr direction = marksOf(op).direction;
  return direction && (direction.getValue() == Direction::Forward) == forward;
}

bool isOfForwardPass(Operation *op) { return isOf(op, true); }
bool isOfBackwardPass(Operation *op) { return isOf(op, false); }

/// The operations of the layer in the middle, in their order.
SmallVector<Operation *> layerInTheMiddle(Block &block, StringRef list) {
  llvm::MapVector<LayerAttr, SmallVector<Operation *>> layers;
  for (Operation &op : block)
    if (LayerAttr layer = marksOf(&op).layer; layer && layer.getList() == list && isOfForwardPass(&op))
      layers[layer].push_back(&op);
  return layers.empty() ? SmallVector<Operation *>() : std::next(layers.begin(), layers.size() / 2)->second;
}

class LayerReader {
public:
  LayerReader(Block &block, const CommandSeconds &costs, bool sharesGathers)
      : names(block), costs(costs), sharesGathers(sharesGathers) {
    for (const GatheredState &gather : findGatheredState(block))
      ofGathers.insert(gather.steps.begin(), gather.steps.end());
  }

  FailureOr<KeepProblem> read(ArrayRef<Operation *> layer) {
    for (auto [number, op] : llvm::enumerate(layer))
      numbers[op] = number;
    for (Operation *op : llvm::reverse(layer))
      if (llvm::any_of(op->getUsers(), [&](Operation *user) { return handsOn(user); }))
        handedOn.insert(op);
    for (Operation *op : layer)
      if (failed(readValue(op)))
        return failure();
    return std::move(problem);
  }

private:
  /// Whether gathered parameters stay does not depend on what is recomputed.
  bool isStored(Operation *op) { return !isView(op) && !stored.isLight(op) && !ofGathers.contains(op); }

  /// Whether a reader belongs to another layer, or is a view that passes on what it reads to one.
  bool handsOn(Operation *user) {
    return !isOfBackwardPass(user) && (!numbers.contains(user) || (!isStored(user) && handedOn.contains(user)));
  }

  LogicalResult readValue(Operation *op) {
    KeepProblem::Value &value = problem.values.emplace_back();
    value.name = names.nameOf(op).str();
    value.isStored = isStored(op);
    value.isRead = llvm::any_of(op->getUsers(), isOfBackwardPass);
    llvm::SetVector<size_t> madeOf;
    for (Value operand : op->getOperands())
      if (auto maker = numbers.find(operand.getDefiningOp()); maker != numbers.end())
        madeOf.insert(maker->second);
    value.madeOf.assign(madeOf.begin(), madeOf.end());
    if (value.isStored)
      value.bytes = handedOn.contains(op) ? 0 : resultBytes(op);
    bool isGatheredAgain = ofGathers.contains(op) && !isView(op) && !sharesGathers;
    return value.isStored || isGatheredAgain ? describeSeconds(op, value) : success();
  }

  LogicalResult describeSeconds(Operation *op, KeepProblem::Value &value) {
    if (auto collective = dyn_cast<CollectiveOpInterface>(op)) {
      auto mesh = op->getParentOfType<ModuleOp>()->getAttrOfType<MeshAttr>(module_attr::mesh);
      value.seconds = costs.ofMove(moveOf(collective, mesh));
      return success();
    }
    FailureOr<Work> work = workOf(op);
    if (failed(work))
      return failure();
    if (stored.isKernel(op)) {
      work->bytesRead = 0;
      for (Value input : stored.inputsOf(op))
        work->bytesRead += storedBytes(input.getType());
    }
    value.seconds = costs.ofLaunch(workFor(*work), narrowestType(op));
    return success();
  }

  ValueNames names;
  const CommandSeconds &costs;
  bool sharesGathers;
  StoredValues stored;
  DenseSet<Operation *> ofGathers; ///< what gathers of state consist of
  DenseMap<Operation *, size_t> numbers;
  DenseSet<Operation *> handedOn;
  KeepProblem problem;
};

} // namespace

FailureOr<KeepProblem> layerProblem(ModuleOp module, StringRef list, const CommandSeconds &costs, bool sharesGathers) {
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.isDeclaration() ||
        llvm::none_of(function.front(), [](Operation &op) { return isOfBackwardPass(&op); }))
      continue;
    Block &block = function.front();
    if (SmallVector<Operation *> layer = layerInTheMiddle(block, list); !layer.empty())
      return LayerReader(block, costs, sharesGathers).read(layer);
  }
  return KeepProblem();
}

} // namespace dtc
