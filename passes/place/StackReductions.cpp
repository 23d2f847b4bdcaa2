// dt-stack-reductions: one all-reduce for many scalars.
#include "dialect/IR/Ops.h"
#include "mlir/Analysis/TopologicalSortUtils.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/place/Passes.h"
#include "llvm/ADT/MapVector.h"

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
    // Stacked operations stand where the first of them stood; bring definitions before uses again.
    if (changed)
      sortTopologically(&block);
  }

private:
  /// Members of one group have equal axes, kind and element type, and as many scalar all-reduces before them on the
  /// longest path: then none depends on another, and groups cannot depend on each other in a circle.
  using Key = std::tuple<int, Attribute, Attribute, ReductionKind, Type>;

  static llvm::MapVector<Key, SmallVector<AllReduceOp>> collect(Block &block) {
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
        groups[{depth, reduction.getAxes(), reduction.getMembersAttr(), reduction.getKind(), type.getElementType()}]
            .push_back(reduction);
        ++depth;
      }
      depths[&op] = depth;
    }
    return groups;
  }

  static void stack(ArrayRef<AllReduceOp> members) {
    AllReduceOp first = members.front();
    OpBuilder builder(first);
    SmallVector<Location> locations = llvm::map_to_vector(members, [](AllReduceOp op) { return op.getLoc(); });
    Location loc = builder.getFusedLoc(locations);
    Type element = cast<RankedTensorType>(first.getType()).getElementType();
    auto one = RankedTensorType::get({1}, element);
    auto all = RankedTensorType::get({static_cast<int64_t>(members.size())}, element);
    SmallVector<Value> parts;
    for (AllReduceOp member : members)
      parts.push_back(reshape(builder, member.getLoc(), one, member.getOperand()));
    Value stacked = ConcatOp::create(builder, loc, all, parts, /*dim=*/0);
    StringAttr reason = builder.getStringAttr(std::to_string(members.size()) +
                                              " numbers at once; the first: " + first.getReason().value_or("").str());
    Value reduced = AllReduceOp::create(builder, loc, all, stacked, first.getAxes(), first.getKind(),
                                        first.getMembersAttr(), reason, first.getRemedyAttr());
    for (size_t i = 0; i < members.size(); ++i) {
      AllReduceOp member = members[i];
      Value piece = SliceOp::create(builder, member.getLoc(), one, reduced, ArrayRef<int64_t>{static_cast<int64_t>(i)});
      member.getResult().replaceAllUsesWith(reshape(builder, member.getLoc(), member.getType(), piece));
    }
    for (size_t i = 0; i < members.size(); ++i) {
      AllReduceOp member = members[i];
      member.erase(); // only now: new operations stand before the first of them
    }
  }

  static Value reshape(OpBuilder &builder, Location loc, Type type, Value value) {
    return value.getType() == type ? value : ReshapeOp::create(builder, loc, type, value);
  }
};
} // namespace
