// Splits each collective into a start and a wait.
#include "dialect/IR/ElementTypes.h"
#include "dialect/IR/Marks.h"
#include "passes/analysis/GatheredState.h"
#include "passes/schedule/Passes.h"

#include <deque>

namespace dtc {
#define GEN_PASS_DEF_SPLITCOLLECTIVES
#include "passes/schedule/Passes.h.inc"
} // namespace dtc

using namespace mlir;
using namespace mlir::dt;

namespace {

bool isReturned(Value value) {
  return llvm::any_of(value.getUsers(), [](Operation *user) { return user->hasTrait<OpTrait::IsTerminator>(); });
}

/// The value that a view finally shows.
Value viewed(Value value) {
  while (Operation *producer = value.getDefiningOp()) {
    if (!dtc::isView(producer))
      break;
    value = producer->getOperand(0);
  }
  return value;
}

/// Whether a value is only assembled with others.
bool isAssembled(Value value) {
  return value.hasOneUse() && isa<ViewOpInterface>(*value.user_begin()) && value.user_begin()->getNumOperands() > 1;
}

/// Bytes that a collective reads, and that must stay until it has been waited for. State stays anyway, also behind the
/// barrier of a repeated gather; so does what is reduced where it is returned, or where it is assembled with others.
uint64_t sourceBytes(Operation *start) {
  Value source = viewed(start->getOperand(0));
  Value result = (*start->user_begin())->getResult(0);
  bool stays = isa<BlockArgument>(source) ||
               (cast<CollectiveOpInterface>(start).canBeInPlace() && (isReturned(result) || isAssembled(result)));
  return stays ? 0 : bytesOf(start->getOperand(0).getType());
}

bool isStart(Operation &op) { return isa<CollectiveOpInterface>(op) && isa<FutureType>(op.getResult(0).getType()); }

/// Whether an operation adds to one of its operands in place.
bool accumulatesInto(OpOperand &use) {
  auto library = dyn_cast<LibraryOpInterface>(use.getOwner());
  return library && llvm::any_of(llvm::seq(use.getOwner()->getNumResults()), [&](unsigned result) {
           return library.mustBeInPlace(result) && library.getInPlaceOperand(result) == int(use.getOperandNumber());
         });
}

/// Whether the result of a collective is a table to which rows are added later. If it were not started before, its
/// source would be there until then.
bool isAddedToLater(Operation *start) {
  Value value = (*start->user_begin())->getResult(0);
  return !value.use_empty() && llvm::all_of(value.getUses(), accumulatesInto);
}

/// Whether its result is used to add something to a table.
bool isForAddition(Operation *wait) {
  return llvm::any_of(wait->getUsers(),
                      [](Operation *user) { return llvm::any_of(user->getOpOperands(), accumulatesInto); });
}

/// Moves what reads only this value to right after it, through views: a gradient that is widened there need not stay
/// narrow until all have arrived.
void moveReadersBehind(Operation *op) {
  Operation *last = op;
  for (Operation *user : llvm::make_early_inc_range(op->getResult(0).getUsers())) {
    bool alone = llvm::all_of(
        user->getOperands(), [&](Value operand) { return isa<BlockArgument>(operand) || operand == op->getResult(0); });
    if (!alone || user->hasTrait<OpTrait::IsTerminator>() || isa<CollectiveOpInterface>(user))
      continue;
    user->moveAfter(last);
    last = user;
    if (isa<ViewOpInterface>(user))
      moveReadersBehind(user);
  }
}

/// Collectives under way keep their sources. Before they would keep more than the largest collective needs by itself,
/// the oldest are waited for.
class UnderWay {
public:
  explicit UnderWay(Block &block) : block(block) {
    for (Operation &op : block)
      if (isStart(op))
        most = std::max(most, sourceBytes(&op));
  }

  void bound() {
    for (Operation &op : block) {
      if (hasWaited && held.contains(&op) && isForAddition(&op))
        waitForOlder(&op);
      finish(&op);
      if (isStart(op) && !op.use_empty())
        begin(&op);
    }
  }

private:
  void begin(Operation *start) {
    uint64_t own = isAddedToLater(start) ? 0 : sourceBytes(start);
    for (; !waits.empty() && bytes + own > most; waits.pop_front())
      if (finish(waits.front())) {
        hasWaited = true;
        waits.front()->moveBefore(start);
        moveReadersBehind(waits.front());
      }
    bytes += own;
    held[*start->user_begin()] = own;
    waits.push_back(*start->user_begin());
  }

  /// Rows that are added to a table come after all gradients. So gradients are waited for in the order in which they
  /// come, as others have been: layers stay alike.
  void waitForOlder(Operation *rows) {
    for (; waits.front() != rows; waits.pop_front())
      if (finish(waits.front())) {
        waits.front()->moveBefore(rows);
        moveReadersBehind(waits.front());
      }
  }

  bool finish(Operation *wait) {
    auto found = held.find(wait);
    if (found == held.end())
      return false;
    bytes -= found->second;
    held.erase(found);
    return true;
  }

  Block &block;
  uint64_t most = 0, bytes = 0;
  bool hasWaited = false;
  DenseMap<Operation *, uint64_t> held; ///< by a wait: bytes until then
  std::deque<Operation *> waits;        ///< of all that are under way and of some that were, oldest first
};

/// The order of a block's operations, kept while some of them move: the block itself would renumber after each move.
class Order {
public:
  explicit Order(Block &block) {
    constexpr int64_t room = int64_t(1) << 20; // for what comes between two
    positions.reserve(block.getOperations().size());
    for (Operation &op : block)
      positions[&op] = room * static_cast<int64_t>(positions.size());
  }

  /// The first reader of a value, or null.
  Operation *firstUser(Value value) const {
    Operation *first = nullptr;
    for (Operation *user : value.getUsers())
      if (!first || positions.lookup(user) < positions.lookup(first))
        first = user;
    return first;
  }

  /// Moves an operation to `user`, before all that were moved there; if `user` was moved itself, to where it went.
  void moveTo(Operation *op, Operation *user) {
    Operation *place = places.try_emplace(user, user).first->second;
    Operation *&front = fronts.try_emplace(place, place).first->second;
    op->moveBefore(front);
    positions[op] = positions[front] - 1;
    front = op;
    places[op] = place;
  }

  void replace(Operation *op, Operation *by) { positions[by] = positions.lookup(op); }

private:
  DenseMap<Operation *, int64_t> positions;
  DenseMap<Operation *, Operation *> places; ///< to which an operation was moved
  DenseMap<Operation *, Operation *> fronts; ///< the first of what was moved to an operation
};

/// A view does not count as a use of what it views: it goes to its own first reader, so that a wait need not come
/// before it.
void sinkViews(Block &block) {
  Order order(block);
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (dtc::isView(&op))
      if (Operation *user = order.firstUser(op.getResult(0)))
        order.moveTo(&op, user);
}

/// Moves each collective of a computed value to right after what computes it: it waits for nothing else. Several that
/// follow one operation keep their order.
void hoistToOperands(Block &block) {
  DenseMap<Operation *, Operation *> lastBehind; ///< an operation, and what was last moved behind it
  for (Operation &op : llvm::make_early_inc_range(block)) {
    if (!isa<CollectiveOpInterface>(op) || dtc::isOfState(op.getOperand(0)))
      continue;
    SmallVector<Operation *> moved{&op}; // with the views of what was computed, the last first
    Operation *producer = op.getOperand(0).getDefiningOp();
    while (producer && dtc::isView(producer)) {
      moved.push_back(producer);
      producer = producer->getOperand(0).getDefiningOp();
    }
    if (!producer)
      continue;
    Operation *&behind = lastBehind.try_emplace(producer, producer).first->second;
    for (Operation *move : llvm::reverse(moved)) {
      move->moveAfter(behind);
      behind = move;
    }
  }
}

struct SplitCollectives : dtc::impl::SplitCollectivesBase<SplitCollectives> {
  void runOnOperation() override {
    sinkViews(getOperation().front());
    hoistToOperands(getOperation().front());
    SmallVector<CollectiveOpInterface> collectives;
    getOperation().walk([&](CollectiveOpInterface op) {
      if (!isa<FutureType>(op->getResult(0).getType()))
        collectives.push_back(op);
    });
    Order order(getOperation().front());
    for (CollectiveOpInterface op : collectives) {
      OpBuilder builder(op);
      RankedTensorType type = op.getValueType();
      Operation *start = op.cloneWithType(builder, FutureType::get(&getContext(), type));
      order.replace(op, start);
      Operation *user = order.firstUser(op->getResult(0));
      builder.setInsertionPoint(user ? user : op->getBlock()->getTerminator());
      auto wait = WaitOp::create(builder, op.getLoc(), type, start->getResult(0));
      mark(wait, marksOf(start));
      op->getResult(0).replaceAllUsesWith(wait.getResult());
      op.erase();
    }
    UnderWay(getOperation().front()).bound();
  }
};

} // namespace
