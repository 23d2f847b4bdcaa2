// Lets the parts of a batch take turns, so that one part's products run while another's collectives are under way; see
// Passes.td.
#include "dialect/IR/Marks.h"
#include "passes/schedule/Passes.h"

#include <map>

namespace dtc {
#define GEN_PASS_DEF_INTERLEAVEPARTS
#include "passes/schedule/Passes.h.inc"
} // namespace dtc

using namespace mlir;
using namespace mlir::dt;

namespace {

/// How many layers the parts may be ahead of work that is not in parts, which keeps what it reads.
constexpr int mostLayersAhead = 1;

/// How long an operation takes, in an arbitrary unit: each product takes as long as each collective. What is between
/// them takes little. Sizes do not count, so that a shrunk program has the same order.
double takes(Operation *op) {
  if (isa<CollectiveOpInterface>(op))
    return 1;
  auto cost = dyn_cast<CostOpInterface>(op);
  return cost && cost.getWorkClass() == WorkClass::Product ? 1 : 0;
}

/// Operations that keep their order: those of one part, or all others.
struct Stream {
  SmallVector<Operation *> ops;
  size_t next = 0;

  Operation *head() const { return next < ops.size() ? ops[next] : nullptr; }
};

/// A list schedule of one block, with one stream of products and one of collectives.
class Interleaving {
public:
  explicit Interleaving(Block &block) : block(block) {}

  void run() {
    collect();
    if (parts.empty())
      return;
    while (Operation *op = choose())
      emit(op);
  }

private:
  void collect();
  void addOverwriting(Operation *op);
  Operation *choose();
  void emit(Operation *op);
  bool canEmit(Operation *op) const;
  double readyAt(Operation *op) const;
  bool isOverdue(Operation *op) const;
  void forEachNeeded(Operation *op, function_ref<void(Operation *)> visit) const;

  Block &block;
  std::map<int64_t, Stream> parts;
  Stream rest;
  DenseMap<Operation *, int> layers;    ///< how many layers an operation has before it
  DenseMap<Operation *, double> toMove; ///< for a part's operation: the time up to its next collective, and its own
  DenseMap<Operation *, SmallVector<Operation *>> before; ///< readers of what an operation overwrites
  DenseMap<Operation *, double> done;                     ///< when the results of emitted operations are there
  double now = 0, link = 0;
};

void Interleaving::collect() {
  LayerAttr layer;
  int count = 0;
  for (Operation &op : block.without_terminator()) {
    Marks marks = marksOf(&op);
    if (marks.layer && marks.layer != layer) {
      layer = marks.layer;
      ++count;
    }
    layers[&op] = count;
    addOverwriting(&op);
    (marks.part ? parts[marks.part.getInt()] : rest).ops.push_back(&op);
  }
  for (auto &[part, stream] : parts) {
    double behind = 0;
    for (Operation *op : llvm::reverse(stream.ops)) {
      behind = isa<CollectiveOpInterface>(op) ? 0 : behind + takes(op);
      toMove[op] = behind;
    }
  }
}

/// What an operation overwrites must have been read: readers that came before it stay there.
void Interleaving::addOverwriting(Operation *op) {
  auto library = dyn_cast<LibraryOpInterface>(op);
  for (unsigned result = 0; library && result < op->getNumResults(); ++result) {
    if (!library.mustBeInPlace(result))
      continue;
    SmallVector<Value> open{op->getOperand(library.getInPlaceOperand(result))};
    while (!open.empty())
      for (Operation *user : open.pop_back_val().getUsers())
        if (user != op && user->isBeforeInBlock(op)) {
          before[op].push_back(user);
          if (isa<ViewOpInterface>(user))
            llvm::append_range(open, user->getResults());
        }
  }
}

void Interleaving::forEachNeeded(Operation *op, function_ref<void(Operation *)> visit) const {
  for (Value operand : op->getOperands())
    if (Operation *producer = operand.getDefiningOp())
      visit(producer);
  if (auto found = before.find(op); found != before.end())
    llvm::for_each(found->second, visit);
}

/// Whether all that an operation needs is there, or can be made from what is there, right before it.
bool Interleaving::canEmit(Operation *op) const {
  bool can = true;
  forEachNeeded(op, [&](Operation *needed) {
    can = can && (done.contains(needed) || (!marksOf(needed).part && canEmit(needed)));
  });
  return can;
}

double Interleaving::readyAt(Operation *op) const {
  double ready = now;
  forEachNeeded(op, [&](Operation *needed) {
    auto there = done.find(needed);
    ready = std::max(ready, there == done.end() ? readyAt(needed) : there->second);
  });
  return ready;
}

/// Whether all parts are further ahead of the work that is not in parts than they should be.
bool Interleaving::isOverdue(Operation *op) const {
  return llvm::all_of(parts, [&](const auto &part) {
    Operation *head = part.second.head();
    return !head || layers.lookup(head) > layers.lookup(op) + mostLayersAhead;
  });
}

/// The next operation of the part that can continue first; among several, of the one that has something to move
/// soonest. While all parts wait, or once it is overdue, work that is not in parts.
Operation *Interleaving::choose() {
  while (rest.head() && done.contains(rest.head())) // something needed it
    ++rest.next;
  Operation *best = nullptr;
  std::pair<double, double> first;
  for (auto &[part, stream] : parts) {
    Operation *head = stream.head();
    if (!head || !canEmit(head))
      continue;
    std::pair<double, double> at = {readyAt(head), toMove.lookup(head)};
    if (!best || at < first) {
      best = head;
      first = at;
    }
  }
  Operation *other = rest.head();
  if (other && canEmit(other) && (!best || isOverdue(other) || readyAt(other) < first.first))
    return other;
  return best;
}

void Interleaving::emit(Operation *op) {
  if (done.contains(op))
    return;
  forEachNeeded(op, [&](Operation *needed) { emit(needed); });
  double begin = readyAt(op);
  if (isa<CollectiveOpInterface>(op)) {
    link = std::max(link, begin) + takes(op);
    done[op] = link;
  } else {
    now = begin + takes(op);
    done[op] = now;
  }
  op->moveBefore(block.getTerminator());
  if (IntegerAttr part = marksOf(op).part)
    ++parts[part.getInt()].next;
}

struct InterleaveParts : dtc::impl::InterleavePartsBase<InterleaveParts> {
  void runOnOperation() override { Interleaving(getOperation().front()).run(); }
};

} // namespace
