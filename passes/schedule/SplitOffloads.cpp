// Splits copies to the host and back into starts and waits; see Passes.td.
#include "dialect/IR/Marks.h"
#include "passes/analysis/GatheredState.h"
#include "passes/schedule/Passes.h"

#include "llvm/ADT/MapVector.h"

namespace dtc {
#define GEN_PASS_DEF_SPLITOFFLOADS
#include "passes/schedule/Passes.h.inc"
} // namespace dtc

using namespace mlir;
using namespace mlir::dt;

namespace {

bool isForward(Operation *op) {
  DirectionAttr direction = marksOf(op).direction;
  return !direction || direction.getValue() == Direction::Forward;
}

/// Whether an operation takes time where it is: others may have been moved there, or go where they are read.
bool isWork(Operation *op) {
  return !dtc::isView(op) && !isa<HostCopyOpInterface>(op) && !op->hasTrait<OpTrait::ConstantLike>() &&
         !op->hasTrait<OpTrait::IsTerminator>() && llvm::none_of(op->getResults(), dtc::isOfState);
}

/// Where the layers of a pass begin, in their order.
class LayerBegins {
public:
  void add(Operation *op) {
    if (LayerAttr layer = marksOf(op).layer)
      begins.insert({layer, op});
  }

  /// Where the layer begins that comes `count` layers after another; null if there is none.
  Operation *behind(LayerAttr layer, ptrdiff_t count) const {
    auto found = begins.find(layer);
    ptrdiff_t index = found - begins.begin() + count;
    if (found == begins.end() || index < 0 || index >= static_cast<ptrdiff_t>(begins.size()))
      return nullptr;
    return begins.begin()[index].second;
  }

  /// Where a layer begins after the copy, at least `count` layers after the copy's. Parts of the batch take turns, so
  /// one may be layers ahead of what joins all of them.
  Operation *behindAndAfter(HostCopyOpInterface copy, ptrdiff_t count) const {
    Operation *begin = behind(marksOf(copy).layer, count);
    while (begin && begin->isBeforeInBlock(copy))
      begin = behind(marksOf(copy).layer, ++count);
    return begin;
  }

private:
  llvm::MapVector<LayerAttr, Operation *> begins;
};

/// A copy, and the operations before which it starts and is waited for.
struct Copy {
  HostCopyOpInterface op;
  Operation *start, *wait;
};

/// The first operation that reads a value, with views followed.
Operation *firstReader(Value value) {
  Operation *first = nullptr;
  for (Operation *user : value.getUsers()) {
    Operation *reader = dtc::isView(user) && !user->use_empty() ? firstReader(user->getResult(0)) : user;
    if (!first || reader->isBeforeInBlock(first))
      first = reader;
  }
  return first;
}

/// The first user except `except`; null if there is none.
Operation *firstUser(Value value, Operation *except = nullptr) {
  Operation *first = nullptr;
  for (Operation *user : value.getUsers())
    if (user != except && (!first || user->isBeforeInBlock(first)))
      first = user;
  return first;
}

/// Where a copy to the host starts: where it is, except that it must not wait for other ranks by itself.
Operation *startOf(HostCopyOpInterface copy) {
  Value moved = copy->getOperand(0);
  Operation *reader = isa_and_nonnull<CollectiveOpInterface>(moved.getDefiningOp()) ? firstUser(moved, copy) : nullptr;
  return reader ? reader : copy.getOperation();
}

struct SplitOffloads : dtc::impl::SplitOffloadsBase<SplitOffloads> {
  void runOnOperation() override {
    SmallVector<HostCopyOpInterface> copies;
    LayerBegins forward, backward;
    Operation *firstBackward = nullptr;
    for (Operation &op : getOperation().front()) {
      auto copy = dyn_cast<HostCopyOpInterface>(op);
      if (copy && !op.use_empty() && !isa<FutureType>(op.getResult(0).getType()))
        copies.push_back(copy);
      bool isBack = copy ? !copy.isToHost() : isWork(&op) && !isForward(&op);
      if (isBack && !firstBackward)
        firstBackward = &op;
      if (isWork(&op))
        (firstBackward ? backward : forward).add(&op);
    }
    SmallVector<Copy> toHost, back;
    for (HostCopyOpInterface copy : copies) {
      Operation *user = firstUser(copy->getResult(0));
      if (copy.isToHost()) {
        Operation *over = forward.behindAndAfter(copy, 2), *wait = over ? over : firstBackward, *start = startOf(copy);
        toHost.push_back({copy, start->isBeforeInBlock(wait) ? start : copy, wait});
      } else {
        Operation *ahead = backward.behind(marksOf(firstReader(copy->getResult(0))).layer, -1);
        back.push_back({copy, ahead && ahead->isBeforeInBlock(user) ? ahead : user, user});
      }
    }
    split(toHost); // before what brings them back
    split(back);
  }

  /// Starts come before waits at the same place.
  static void split(MutableArrayRef<Copy> copies) {
    SmallVector<Operation *> starts;
    for (Copy &copy : copies) {
      OpBuilder builder(copy.start);
      auto type = cast<RankedTensorType>(copy.op->getResult(0).getType());
      starts.push_back(copy.op.cloneWithType(builder, FutureType::get(type.getContext(), type)));
    }
    for (auto [copy, start] : llvm::zip_equal(copies, starts)) {
      Operation *op = copy.op;
      OpBuilder builder(copy.wait);
      auto wait = WaitOp::create(builder, op->getLoc(), op->getResult(0).getType(), start->getResult(0));
      mark(wait, marksOf(start));
      op->getResult(0).replaceAllUsesWith(wait.getResult());
      op->erase();
    }
  }
};

} // namespace
