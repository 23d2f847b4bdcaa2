// Starts gathers of parameters some readers ahead of their own; see Passes.td.
#include "passes/schedule/Passes.h"

#include "dialect/IR/Marks.h"
#include "dialect/IR/Names.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

namespace dtc {
#define GEN_PASS_DEF_GATHERAHEAD
#include "passes/schedule/Passes.h.inc"
} // namespace dtc

using namespace mlir;
using namespace mlir::dt;

namespace {

bool isView(Operation *op) { return isa<ViewOpInterface>(op) && op->getNumOperands() == 1; }

/// A parameter that is moved here from other ranks, for its readers.
struct Gather {
  Operation *last;                  ///< the collective whose value is read
  SmallVector<Operation *, 2> stem; ///< all that makes it from the stored parameter, the last first
  BlockArgument stored;
  SmallVector<Operation *, 2> readers;
  uint64_t firstTurn = 0, lastTurn = 0; ///< of its readers
};

/// What a value is made of, one operation after the other, if that is state alone.
std::optional<Gather> gatherOf(Operation *last) {
  Gather gather{last, {last}, {}, {}};
  Value value = last->getOperand(0);
  for (Operation *op = value.getDefiningOp(); op; op = value.getDefiningOp()) {
    if (op->getNumOperands() != 1 || op->getNumResults() != 1)
      return std::nullopt;
    gather.stem.push_back(op);
    value = op->getOperand(0);
  }
  gather.stored = cast<BlockArgument>(value);
  PortAttr port = portOf(gather.stored);
  return port && port.isState() ? std::optional(gather) : std::nullopt;
}

/// Who reads a value, also through views; false where it is returned or goes on to other ranks.
bool collectReaders(Value value, SmallVectorImpl<Operation *> &readers) {
  for (Operation *user : value.getUsers()) {
    if (isa<CollectiveOpInterface>(user) || user->hasTrait<OpTrait::IsTerminator>())
      return false;
    if (!isView(user))
      readers.push_back(user);
    else if (!collectReaders(user->getResult(0), readers))
      return false;
  }
  return true;
}

/// Whether two gathers make the same of one parameter: what they say of the model and of their reason aside.
bool isSame(const Gather &a, const Gather &b) {
  auto meaning = [](Operation *op) {
    NamedAttrList attributes(op->getAttrDictionary());
    for (StringRef name : {StringRef(layerAttr), StringRef(directionAttr), StringRef("reason"), StringRef("remedy")})
      attributes.erase(name);
    return attributes.getDictionary(op->getContext());
  };
  auto steps = [](const Gather &gather) {
    return llvm::make_filter_range(gather.stem, [](Operation *op) { return !isa<BarrierOp>(op); });
  };
  auto left = steps(a), right = steps(b);
  auto i = left.begin(), j = right.begin();
  for (; i != left.end() && j != right.end(); ++i, ++j)
    if ((*i)->getName() != (*j)->getName() || (*i)->getResultTypes() != (*j)->getResultTypes() ||
        meaning(*i) != meaning(*j))
      return false;
  return i == left.end() && j == right.end() && a.stored == b.stored;
}

/// The gathers of a function, and the operations that read what they gather, each with its turn.
class Gathers {
public:
  explicit Gathers(Block &block) {
    DenseSet<Operation *> steps; // of gathers, before the last collective
    for (Operation &op : block) {
      positions[&op] = 2 * static_cast<int64_t>(positions.size());
      if (!isa<CollectiveOpInterface>(op) || isa<FutureType>(op.getResult(0).getType()))
        continue;
      std::optional<Gather> gather = gatherOf(&op);
      if (!gather || !collectReaders(op.getResult(0), gather->readers) || gather->readers.empty())
        continue;
      steps.insert(std::next(gather->stem.begin()), gather->stem.end());
      gathers.push_back(std::move(*gather));
    }
    // What is read for the next collective, as a slice that is gathered again, moves with that.
    llvm::erase_if(gathers, [&](const Gather &gather) {
      return llvm::any_of(gather.readers, [&](Operation *reader) { return steps.contains(reader); });
    });
    takeTurns();
  }

  /// A reader more than `ahead` turns behind the one before has a gather of its own: what is read again in the backward
  /// pass is not kept.
  void separate(uint64_t ahead) {
    for (size_t i = 0; i < gathers.size(); ++i) { // new ones are looked at too
      auto far = llvm::adjacent_find(gathers[i].readers, [&](Operation *reader, Operation *next) {
        return turns.lookup(next) > turns.lookup(reader) + ahead;
      });
      if (far == gathers[i].readers.end())
        continue;
      Gather again = gathers[i];
      again.readers.assign(std::next(far), gathers[i].readers.end());
      gathers[i].readers.erase(std::next(far), gathers[i].readers.end());
      gatherFor(again.readers, again);
      gathers.push_back(std::move(again));
    }
    for (Gather &gather : gathers) {
      gather.firstTurn = turns.lookup(gather.readers.front());
      gather.lastTurn = turns.lookup(gather.readers.back());
    }
    llvm::sort(gathers, [&](const Gather &a, const Gather &b) {
      return a.firstTurn != b.firstTurn ? a.firstTurn < b.firstTurn : isEarlier(a.last, b.last);
    });
  }

  /// A gather is not made again for a reader that is at most `ahead` turns behind those of the one before.
  void share(uint64_t ahead) {
    DenseMap<BlockArgument, Gather *> latest;
    for (Gather &gather : gathers) {
      Gather *&before = latest[gather.stored];
      if (!before || gather.firstTurn > before->lastTurn + ahead || !isSame(*before, gather)) {
        before = &gather;
        continue;
      }
      before->lastTurn = std::max(before->lastTurn, gather.lastTurn);
      gather.last->getResult(0).replaceAllUsesWith(before->last->getResult(0));
      for (Operation *op : gather.stem)
        if (op->use_empty())
          op->erase();
      gather.last = nullptr;
    }
  }

  /// Each gather starts `ahead` turns before its first reader's, in the order of their turns.
  void start(uint64_t ahead) {
    for (Gather &gather : gathers) {
      if (!gather.last)
        continue;
      Operation *target = readers[gather.firstTurn < ahead ? 0 : gather.firstTurn - ahead];
      for (Operation *op : llvm::reverse(gather.stem))
        if (positions.lookup(op) > positions.lookup(target)) {
          op->moveBefore(target);
          positions[op] = positions.lookup(target) - 1;
        }
    }
  }

private:
  bool isEarlier(Operation *a, Operation *b) const { return positions.lookup(a) < positions.lookup(b); }

  void takeTurns() {
    llvm::SetVector<Operation *> all;
    for (Gather &gather : gathers) {
      llvm::sort(gather.readers, [&](Operation *a, Operation *b) { return isEarlier(a, b); });
      gather.readers.erase(llvm::unique(gather.readers), gather.readers.end());
      all.insert_range(gather.readers);
    }
    readers = all.takeVector();
    llvm::sort(readers, [&](Operation *a, Operation *b) { return isEarlier(a, b); });
    for (auto [turn, reader] : llvm::enumerate(readers))
      turns[reader] = turn;
  }

  /// Lets some of its readers read a copy of a gather, right before the first of them.
  void gatherFor(ArrayRef<Operation *> those, Gather &gather) {
    OpBuilder builder(those.front());
    IRMapping copies;
    for (Operation *&op : llvm::reverse(gather.stem))
      positions[op = builder.clone(*op, copies)] = positions.lookup(those.front()) - 1;
    gather.last = gather.stem.front();
    for (Operation *reader : those)
      for (OpOperand &operand : reader->getOpOperands()) {
        builder.setInsertionPoint(reader);
        operand.set(copyOf(operand.get(), copies, builder));
      }
  }

  /// A value, or the same view of the copy of what it views.
  static Value copyOf(Value value, IRMapping &copies, OpBuilder &builder) {
    if (Value known = copies.lookupOrNull(value))
      return known;
    Operation *producer = value.getDefiningOp();
    if (!producer || !isView(producer))
      return value;
    Value source = producer->getOperand(0), copy = copyOf(source, copies, builder);
    if (copy == source)
      return value;
    IRMapping operands;
    operands.map(source, copy);
    return builder.clone(*producer, operands)->getResult(0);
  }

  SmallVector<Gather, 0> gathers; ///< in the end in the order of their first readers
  SmallVector<Operation *> readers;
  DenseMap<Operation *, uint64_t> turns;    ///< of readers
  DenseMap<Operation *, int64_t> positions; ///< even; one of what is put before another is smaller by one
};

struct GatherAhead : dtc::impl::GatherAheadBase<GatherAhead> {
  using GatherAheadBase::GatherAheadBase;

  void runOnOperation() override {
    Gathers gathers(getOperation().front());
    gathers.separate(ahead);
    gathers.share(ahead);
    gathers.start(ahead);
  }
};

} // namespace
