// The commands for what stages of a pipeline hand to each other, and for what goes to the host's memory and comes back.
#include "passes/schedule/emit/EmitCommands.h"

#include "dialect/IR/ElementTypes.h"
#include "dialect/IR/Names.h"
#include "dialect/cost/Cost.h"
#include "passes/schedule/emit/EmitMarks.h"
#include "runtime/abi/addresses.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::dt;

namespace dtc {

uint32_t CommandEmitter::tokenOf(PortAttr port) {
  auto [entry, isNew] = transferTokens.try_emplace(port.identity(), nextToken);
  nextToken += isNew;
  return entry->second;
}

/// The name of what is handed on: its place within its layer. On one side the layer is another stage's, so equal stages
/// use the same name.
std::string CommandEmitter::nameWithinLayer(StringRef name) const {
  auto within = layerNumbers.end(); // the first of the layers whose name the text begins with
  size_t length = 0;
  for (size_t end = 1; end <= name.size(); ++end) {
    bool isNumber = llvm::isDigit(name[end - 1]) && (end == name.size() || !llvm::isDigit(name[end]));
    auto layer = isNumber ? layerNumbers.find(name.take_front(end)) : layerNumbers.end();
    if (layer == layerNumbers.end() || (within != layerNumbers.end() && within->second < layer->second))
      continue;
    within = layer;
    length = end;
  }
  if (within == layerNumbers.end())
    return name.str();
  StringRef rest = name.drop_front(length);
  return rest.empty() || rest[0] == '#' ? ("output" + rest).str() : rest.drop_front().str();
}

std::string transferPurpose(Route route, int64_t ranks) {
  bool isNext = route.to == route.from + 1 || (route.from == ranks - 1 && route.to == 0 && ranks > 2);
  bool isPrevious = route.from == route.to + 1 || (route.to == ranks - 1 && route.from == 0 && ranks > 2);
  if (!isNext && !isPrevious)
    return std::to_string(route.from) + " to " + std::to_string(route.to);
  int64_t first = isNext ? route.from : route.to; // of the two
  bool closesOddRing = first == ranks - 1 && ranks % 2 == 1;
  return (isNext ? "forward " : "backward ") + std::to_string(closesOddRing ? 2 : first % 2);
}

void CommandEmitter::describeTransfer(Value value, PortAttr port, ArrayAttr over, int64_t shift,
                                      abi::Transfer &out) {
  SmallVector<AxisRefAttr> axes = llvm::map_to_vector(over, [](Attribute axis) { return cast<AxisRefAttr>(axis); });
  out.set_group(groupIndex(axes, {}, transferPurpose(routeOf(function, port), ranksAlongPipeline(module))));
  out.set_shift(shift);
  out.set_type(elementTypeOf(value.getType()).type);
  out.set_buffer(addressOf(value));
  out.set_elements(cast<RankedTensorType>(value.getType()).getNumElements());
  out.set_token(tokenOf(port));
  out.set_token_space(abi::spaceOf(out.buffer()));
  out.set_value(nameWithinLayer(port.getName()));
}

void CommandEmitter::emitSend(SendOp op) {
  describeTransfer(op.getOperand(), op.getPort(), op.getAxes(), static_cast<int64_t>(op.getShift()),
                   *addCommand(op).mutable_send());
}

void CommandEmitter::emitReceive(RecvOp op) {
  describeTransfer(op.getResult(), op.getPort(), op.getAxes(), static_cast<int64_t>(op.getShift()),
                   *addCommand(op).mutable_recv());
}

void CommandEmitter::emitAwait(AwaitOp op) {
  abi::Wait &wait = *addCommand(op).mutable_wait();
  wait.set_token(tokenOf(op.getPort()));
  wait.set_token_space(abi::spaceOf(addressOf(op.getOperand())));
}

/// Copies queue only behind those of the same kind: what comes back does not wait for what leaves.
LogicalResult CommandEmitter::emitHostCopy(HostCopyOpInterface op) {
  Value from = op->getOperand(0), to = op->getResult(0);
  if (!isa<FutureType>(to.getType()))
    return op.emitError("is not split into a start and a wait; run dt-split-offloads");
  abi::Command &command = addCommand(op);
  abi::Copy &out = *command.mutable_copy();
  out.set_type(elementTypeOf(from.getType()).type);
  out.set_input(addressOf(from));
  out.set_output(addressOf(to));
  out.set_elements(cast<RankedTensorType>(from.getType()).getNumElements());
  out.set_channel(copyChannelOf(op.isToHost()));
  out.set_token(tokens[to] = nextToken++);
  FailureOr<Work> work = workOf(op);
  if (failed(work))
    return failure();
  *command.mutable_work() = workFor(*work);
  return success();
}

} // namespace dtc
