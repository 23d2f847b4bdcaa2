// The functions of stages that update before they exchange anything: which parameters backward passes read, and what
// comes back through the stages.
#include "passes/keep/cut/StageFunctions.h"

using namespace mlir;
using namespace mlir::dt;

namespace dtc {

/// As it was in the stage's forward pass.
FailureOr<Value> StageFunctions::getStashedParameter(BlockArgument parameter, int64_t stage) {
  FailureOr<Value> own = get(parameter, {stage, Forward});
  if (failed(own))
    return failure();
  handOn(partOf({stage, Forward}), *own, parameter, PortKind::Stash);
  Part &backward = partOf({stage, Backward});
  return backward.values[parameter] = takeOver(backward, parameter, parameter.getType(), PortKind::Stash);
}

/// The attributes of the share that each stage returns a value as.
DictionaryAttr StageFunctions::shareOf(Value value) {
  for (OpOperand &use : value.getUses())
    if (use.getOwner() == original.front().getTerminator())
      if (auto attributes = original.getResultAttrDict(use.getOperandNumber());
          cast<PortAttr>(attributes.get(portAttr)).getKind() == PortKind::Share)
        return attributes;
  return {};
}

/// What the last stage has made, once it has come back to the first one.
FailureOr<Value> StageFunctions::getFromFirstStage(Value value, int64_t rank) {
  Place first{0, Backward};
  FailureOr<Value> returned = get(value, first);
  if (failed(returned))
    return failure();
  DictionaryAttr attributes = shareOf(value);
  if (!attributes)
    attributes = portAttributes(PortAttr::get(value.getContext(), PortKind::Share, nameOf(value, shares).getValue()));
  addResult(partOf(first), *returned, attributes);
  return addArgument(partOf({rank, Once}), value.getType(), attributes, value.getLoc());
}

/// Whether ranks read a result of the passes before any exchange: then it goes back through the stages with the
/// gradients.
bool StageFunctions::comesBackTo(OpOperand &result) {
  PortAttr port = resultPort(original, result.getOperandNumber());
  return port.getKind() == PortKind::Share &&
         (homes.comesBack(result.get()) || (cut.earlyUpdate && port.getName() == stepTokenCount));
}

/// The backward pass of each rank's first stage, which is its last to run, returns it for the rank's own update.
LogicalResult StageFunctions::returnFromEachStage(OpOperand &result) {
  DictionaryAttr attributes = original.getResultAttrDict(result.getOperandNumber());
  for (int64_t rank = 0; rank < cut.ranks; ++rank) {
    int64_t stage = cut.stagesOf(rank).first();
    FailureOr<Value> value = get(result.get(), {stage, Backward});
    if (failed(value))
      return failure();
    addResult(partOf({stage, Backward}), *value, attributes);
  }
  return success();
}

} // namespace dtc
