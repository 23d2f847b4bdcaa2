// Decides which readers of a gathered parameter share a gather, and which gather it again; see Passes.td.
#include "passes/keep/Passes.h"

#include "dialect/IR/Marks.h"
#include "dialect/IR/Names.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "passes/analysis/StoredValues.h"
#include "passes/keep/gathers/GatherPlan.h"
#include "llvm/ADT/SetVector.h"

namespace dtc {
#define GEN_PASS_DEF_SHAREGATHERS
#include "passes/keep/Passes.h.inc"
} // namespace dtc

using namespace mlir;
using namespace mlir::dt;
using dtc::GatheredState;
using dtc::Gathering;
using dtc::GatherPlan;
using dtc::StoredValues;

namespace {

/// An operation that reads what was gathered: one outside kernels, or one whose result a kernel will store.
struct Reader {
  Operation *op;
  const GatheredState *gather;
};

/// Gathers that make the same from one stored tensor, and who reads them, each operation once, in their order.
struct EqualGathers {
  SmallVector<const GatheredState *> gathers;
  SmallVector<Reader> readers;
};

/// Collects the final readers of a value: views, and what kernels compute where they read it, are followed.
void collectReaders(Value value, StoredValues &stored, llvm::SmallSetVector<Operation *, 4> &readers,
                    DenseSet<Value> &seen) {
  if (!seen.insert(value).second)
    return;
  for (Operation *user : value.getUsers())
    if (dtc::isView(user) || stored.isLight(user))
      collectReaders(user->getResult(0), stored, readers, seen);
    else
      readers.insert(user);
}

/// Redirects readers to a repeated gather, with copies of what is in between: views, and what the readers compute.
class Chains {
public:
  void replace(Value gathered, Value by) { copies.map(gathered, by); }

  /// Makes `reader` read copies instead of what is replaced.
  void copyFor(Operation *reader, StoredValues &stored) {
    OpBuilder builder(reader);
    for (OpOperand &operand : reader->getOpOperands())
      operand.set(copyOf(operand.get(), builder, marksOf(reader).direction, stored));
  }

private:
  Value copyOf(Value value, OpBuilder &builder, DirectionAttr direction, StoredValues &stored) {
    if (Value known = copies.lookupOrNull(value))
      return known;
    Operation *producer = value.getDefiningOp();
    if (!producer || !(dtc::isView(producer) || stored.isLight(producer)))
      return value;
    bool changes = false;
    IRMapping operands;
    for (Value operand : producer->getOperands()) {
      Value copy = copyOf(operand, builder, direction, stored);
      changes |= copy != operand;
      operands.map(operand, copy);
    }
    Value copy = value;
    if (changes) {
      Operation *again = builder.clone(*producer, operands);
      if (direction)
        again->setAttr(directionAttr, direction);
      copy = again->getResult(0);
    }
    copies.map(value, copy);
    return copy;
  }

  IRMapping copies;
};

/// The gathers of a function and the operations that read what they gather, each with its turn.
class Gathers {
public:
  explicit Gathers(Block &block) : found(dtc::findGatheredState(block)) {
    if (found.empty())
      return;
    for (Operation &op : block) {
      positions[&op] = positions.size();
      levels[&op] = levelOf(&op);
    }
    DenseMap<BlockArgument, SmallVector<size_t, 1>> ofTensor; // of `classes`
    for (const GatheredState &gather : found) {
      SmallVector<size_t, 1> &alike = ofTensor[gather.stored];
      auto *same = llvm::find_if(
          alike, [&](size_t i) { return dtc::isSameState(classes[i].gathers.front()->value(), gather.value()); });
      if (same == alike.end()) {
        alike.push_back(classes.size());
        classes.emplace_back();
        same = std::prev(alike.end());
      }
      addTo(classes[*same], gather);
    }
    takeTurns();
  }

  /// Readers share a gather as the plan says; otherwise those that follow one another within `ahead` turns.
  void share(const GatherPlan &plan, uint64_t ahead) {
    constexpr uint64_t beyondAll = uint64_t(1) << 62;
    for (EqualGathers &gathers : classes) {
      std::optional<Gathering> how = plan.howOf(*gathers.gathers.front());
      divide(gathers, !how ? ahead : *how == Gathering::Shared ? beyondAll : 0);
    }
  }

private:
  bool isEarlier(Operation *a, Operation *b) const { return positions.lookup(a) < positions.lookup(b); }
  unsigned levelOf(Operation *op);
  void addTo(EqualGathers &gathers, const GatheredState &gather);
  void takeTurns();
  void divide(EqualGathers &gathers, uint64_t ahead);
  static void gatherAgain(const EqualGathers &gathers, ArrayRef<Reader> readers, StoredValues &stored);

  std::vector<GatheredState> found;
  std::vector<EqualGathers> classes;
  StoredValues stored;
  DenseMap<Operation *, size_t> positions;
  DenseMap<Operation *, unsigned> levels; ///< how many operations outside kernels must run before it, in sequence
  DenseMap<Operation *, uint64_t> turns;  ///< of readers
};

unsigned Gathers::levelOf(Operation *op) {
  unsigned level = 0;
  for (Value operand : op->getOperands())
    stored.forEachInput(operand, [&](Value input) {
      if (Operation *producer = input.getDefiningOp())
        level = std::max(level, levels.lookup(producer) + (dtc::isKernelOp(producer) ? 0 : 1));
    });
  return level;
}

void Gathers::addTo(EqualGathers &gathers, const GatheredState &gather) {
  llvm::SmallSetVector<Operation *, 4> readers;
  DenseSet<Value> seen;
  collectReaders(gather.value(), stored, readers, seen);
  gathers.gathers.push_back(&gather);
  for (Operation *reader : readers)
    gathers.readers.push_back({reader, &gather});
}

/// Each reader has its own turn, except neighbours that will be one kernel: those that run between the same operations
/// outside kernels.
void Gathers::takeTurns() {
  llvm::SetVector<Operation *> all;
  for (EqualGathers &gathers : classes) {
    llvm::sort(gathers.readers, [&](const Reader &a, const Reader &b) {
      return a.op != b.op ? isEarlier(a.op, b.op) : isEarlier(a.gather->steps.front(), b.gather->steps.front());
    });
    auto end = std::unique(gathers.readers.begin(), gathers.readers.end(),
                           [](const Reader &a, const Reader &b) { return a.op == b.op; });
    gathers.readers.erase(end, gathers.readers.end());
    for (const Reader &reader : gathers.readers)
      all.insert(reader.op);
  }
  SmallVector<Operation *> inOrder = all.takeVector();
  llvm::sort(inOrder, [&](Operation *a, Operation *b) { return isEarlier(a, b); });
  uint64_t turn = 0;
  Operation *before = nullptr;
  for (Operation *reader : inOrder) {
    bool isSameKernel =
        before && dtc::isKernelOp(before) && dtc::isKernelOp(reader) && levels.lookup(before) == levels.lookup(reader);
    turn += isSameKernel ? 0 : 1;
    turns[reader] = turn;
    before = reader;
  }
}

void Gathers::divide(EqualGathers &gathers, uint64_t ahead) {
  ArrayRef<Reader> left = gathers.readers;
  for (bool isFirst = true; !left.empty(); isFirst = false) {
    const Reader *last = llvm::adjacent_find(left, [&](const Reader &reader, const Reader &next) {
      return turns.lookup(next.op) > turns.lookup(reader.op) + ahead;
    });
    ArrayRef<Reader> near = last == left.end() ? left : left.take_front(last + 1 - left.begin());
    if (!isFirst)
      gatherAgain(gathers, near, stored);
    left = left.drop_front(near.size());
  }
  // The others read copies by now.
  Value first = gathers.gathers.front()->value();
  for (const GatheredState *gather : llvm::drop_begin(gathers.gathers))
    gather->value().replaceAllUsesWith(first);
}

/// Gives readers a gather of their own, right before the first of them. Its reason says why that one needs it.
void Gathers::gatherAgain(const EqualGathers &gathers, ArrayRef<Reader> readers, StoredValues &stored) {
  Operation *first = readers.front().op;
  OpBuilder builder(first);
  DirectionAttr direction = marksOf(first).direction;
  auto record = [&](Operation *op) {
    if (direction)
      op->setAttr(directionAttr, direction);
    return op;
  };
  const GatheredState &gather = *readers.front().gather;
  IRMapping copies;
  copies.map(Value(gather.stored),
             record(BarrierOp::create(builder, gather.stored.getLoc(), gather.stored))->getResult(0));
  Operation *made = nullptr;
  for (Operation *step : llvm::reverse(gather.steps))
    made = record(builder.clone(*step, copies));
  Chains chains;
  for (const GatheredState *equal : gathers.gathers)
    chains.replace(equal->value(), made->getResult(0));
  for (const Reader &reader : readers)
    chains.copyFor(reader.op, stored);
}

struct ShareGathers : dtc::impl::ShareGathersBase<ShareGathers> {
  using ShareGathersBase::ShareGathersBase;

  void runOnOperation() override {
    FailureOr<GatherPlan> plan = GatherPlan::of(getOperation(), ArrayRef<std::string>(gathers));
    if (failed(plan))
      return signalPassFailure();
    Block &block = getOperation().front();
    Gathers(block).share(*plan, ahead);
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
      if (isOpTriviallyDead(&op))
        op.erase();
  }
};

} // namespace
