// What ranks add up at the end of a step: a part of StageFunctions.
#include "passes/keep/cut/StageFunctions.h"

#include "dialect/IR/Locations.h"
#include "dialect/IR/Marks.h"
#include "dialect/IR/Ops.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::dt;

namespace dtc {

/// What a rank contributes to an exchange: its own summand, or zeros. A lone summand has its own location, so it gets
/// the sum's.
FailureOr<Value> StageFunctions::contribution(Value value, int64_t rank, OpBuilder &builder) {
  Home home = homes.amongRanks(value);
  Block *end = &partOf({rank, Once}).function.front();
  builder.setInsertionPointToEnd(end);
  if (home.partial ? !home.where.contains(rank) : home.where.first() != rank)
    return zeros(builder, value.getLoc(), value.getType());
  FailureOr<Value> own = get(value, {rank, Once});
  if (failed(own) || own->getLoc() == value.getLoc())
    return own;
  builder.setInsertionPointToEnd(end);
  return BarrierOp::create(builder, value.getLoc(), own->getType(), *own).getResult();
}

static std::string namesOf(StageSet stages) {
  return llvm::join(llvm::map_range(stages.numbers(), [](int64_t stage) { return std::to_string(stage); }), ", ");
}

/// Each rank that wants a value takes part. A lone one only adds up what its stages have.
LogicalResult StageFunctions::exchange(Value value) {
  StageSet wanted = homes.exchangedOver(value);
  if (wanted.isEmpty())
    return success();
  if (cut.asynchronous && duty.getTask() == Task::Once) // they update at different times, and each for its own step
    return emitError(value.getLoc()) << "pipedream updates each stage by itself, and this is needed by ranks "
                                     << namesOf(wanted) << " of the pipeline together";
  MarkListener listener({marksOf(value).layer, DirectionAttr::get(value.getContext(), Direction::Update)});
  OpBuilder builder(value.getContext(), &listener);
  std::vector<int64_t> ranks = wanted.numbers();
  SmallVector<int32_t> members(ranks.begin(), ranks.end());
  auto ofGroup = wanted == cut.allRanks() ? DenseI32ArrayAttr() : builder.getDenseI32ArrayAttr(members);
  ArrayAttr axes = builder.getArrayAttr({AxisRefAttr::whole(builder.getStringAttr(pipelineAxis))});
  Home home = homes.of(value);
  bool isOfPasses = passOf(value.getDefiningOp()) != Once;
  StringAttr reason = builder.getStringAttr((home.partial ? "partial over " : "made on ") +
                                            std::string(isOfPasses || cut.ranks == cut.stages() ? "stage" : "rank") +
                                            (home.partial ? "s " : " ") + namesOf(home.where) + " of the pipeline" +
                                            (home.partial ? "" : ", needed on all"));
  for (int32_t rank : members) {
    FailureOr<Value> own = contribution(value, rank, builder);
    if (failed(own))
      return failure();
    partOf({rank, Once}).exchanged[value] =
        members.size() == 1 ? *own
                            : AllReduceOp::create(builder, value.getLoc(), value.getType(), *own, axes,
                                                  ReductionKind::Sum, ofGroup, reason, StringAttr());
  }
  return success();
}

} // namespace dtc
