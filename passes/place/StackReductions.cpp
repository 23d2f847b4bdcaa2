// dt-stack-reductions: one all-reduce for many scalars.
#include "dialect/IR/Marks.h"
#include "dialect/IR/Names.h"
#include "dialect/IR/Ops.h"
#include "dialect/IR/StepFunctions.h"
#include "mlir/Analysis/TopologicalSortUtils.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/place/Passes.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

namespace dtc {
#define GEN_PASS_DEF_STACKREDUCTIONS
#include "passes/place/Passes.h.inc"
} // namespace dtc

using namespace mlir;
using namespace mlir::dt;
using namespace dtc;

namespace {

class StackReductionsPass : public dtc::impl::StackReductionsBase<StackReductionsPass> {
public:
  using StackReductionsBase::StackReductionsBase;

  void runOnOperation() override {
    if (getOperation().isDeclaration())
      return;
    Block &block = getOperation().front();
    bool changed = false;
    for (auto &[key, members] : collect(block))
      if (members.size() > 1) {
        stack(members);
        changed = true;
      }
    // Stacked operations are where the first of them was; move definitions before uses again.
    if (changed)
      sortTopologically(&block);
  }

private:
  /// Members of one group have equal axes, kind and element type, and equally many scalar all-reduces before them on
  /// the longest path: so none depends on another, and groups cannot depend on each other in a circle.
  using Key = std::tuple<int, Attribute, Attribute, ReductionKind, Type, Attribute>;

  /// Where stages update by themselves, what is stacked must be of one stage: of a layer, or a single number.
  Attribute ownerOf(AllReduceOp reduction) {
    if (!getOperation()->getParentOp()->hasAttr(module_attr::asynchronous) ||
        getOperation().getName() != function::update)
      return {};
    LayerAttr layer = marksOf(reduction.getOperation()).layer;
    return layer ? Attribute(layer) : reduction.getLoc();
  }

  llvm::MapVector<Key, SmallVector<AllReduceOp>> collect(Block &block) {
    llvm::MapVector<Key, SmallVector<AllReduceOp>> groups;
    llvm::DenseMap<Operation *, int> depths;
    for (Operation &op : block) {
      int depth = 0;
      for (Value operand : op.getOperands())
        if (Operation *producer = operand.getDefiningOp())
          depth = std::max(depth, depths.lookup(producer));
      auto reduction = dyn_cast<AllReduceOp>(op);
      auto type = reduction ? dyn_cast<RankedTensorType>(reduction.getType()) : RankedTensorType();
      if (type && type.getNumElements() == 1) {
        groups[{depth, reduction.getAxes(), reduction.getMembersAttr(), reduction.getKind(), type.getElementType(),
                ownerOf(reduction)}]
            .push_back(reduction);
        ++depth;
      }
      depths[&op] = depth;
    }
    return groups;
  }

  static void stack(ArrayRef<AllReduceOp> members) {
    OpBuilder builder(members.front());
    Value reduced = reduceAtOnce(builder, members);
    DenseMap<Value, int64_t> places;
    llvm::SetVector<ConcatOp> concats;
    for (AllReduceOp member : members) {
      places.try_emplace(member.getResult(), places.size());
      for (Operation *user : member.getResult().getUsers())
        if (auto concat = dyn_cast<ConcatOp>(user); concat && concat.getType().getRank() == 1)
          concats.insert(concat);
    }
    for (ConcatOp concat : concats)
      takeRuns(builder, concat, reduced, places);
    for (AllReduceOp member : members)
      if (Value result = member.getResult(); !result.use_empty()) {
        Value piece = take(builder, member.getLoc(), reduced, places.at(result), 1);
        result.replaceAllUsesWith(reshape(builder, member.getLoc(), result.getType(), piece));
      }
    for (AllReduceOp member : members)
      member->erase(); // only now: new operations are before the first of them
  }

  static Value reduceAtOnce(OpBuilder &builder, ArrayRef<AllReduceOp> members) {
    AllReduceOp first = members.front();
    Location loc = builder.getFusedLoc(llvm::map_to_vector(members, [](AllReduceOp op) { return op.getLoc(); }));
    Type element = cast<RankedTensorType>(first.getType()).getElementType();
    auto all = RankedTensorType::get({static_cast<int64_t>(members.size())}, element);
    SmallVector<Value> parts;
    for (AllReduceOp member : members) {
      bool fits = cast<RankedTensorType>(member.getType()).getRank() <= 1;
      Type type = fits ? member.getOperand().getType() : RankedTensorType::get({}, element);
      parts.push_back(reshape(builder, member.getLoc(), type, member.getOperand()));
    }
    Value stacked = ConcatOp::create(builder, loc, all, parts, /*dim=*/0);
    StringAttr reason = builder.getStringAttr(std::to_string(members.size()) +
                                              " numbers at once; the first: " + first.getReason().value_or("").str());
    return AllReduceOp::create(builder, loc, all, stacked, first.getAxes(), first.getKind(), first.getMembersAttr(),
                               reason, first.getRemedyAttr());
  }

  /// Members that are also next to each other in `concat` go there as one piece.
  static void takeRuns(OpBuilder &builder, ConcatOp concat, Value reduced, const DenseMap<Value, int64_t> &places) {
    SmallVector<Value> operands;
    OperandRange old = concat.getOperands();
    for (size_t i = 0; i < old.size();) {
      auto begin = places.find(old[i]);
      if (begin == places.end()) {
        operands.push_back(old[i++]);
        continue;
      }
      Location loc = old[i].getLoc();
      int64_t count = 0;
      for (auto place = begin; place != places.end() && place->second == begin->second + count; ++count)
        place = ++i < old.size() ? places.find(old[i]) : places.end();
      operands.push_back(take(builder, loc, reduced, begin->second, count));
    }
    concat->setOperands(operands);
  }

  static Value take(OpBuilder &builder, Location loc, Value reduced, int64_t begin, int64_t count) {
    auto type = cast<RankedTensorType>(reduced.getType()).clone(ArrayRef<int64_t>{count});
    return SliceOp::create(builder, loc, type, reduced, ArrayRef<int64_t>{begin});
  }

  static Value reshape(OpBuilder &builder, Location loc, Type type, Value value) {
    return value.getType() == type ? value : ReshapeOp::create(builder, loc, type, value);
  }
};
} // namespace
