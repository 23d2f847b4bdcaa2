// Starts gathers of parameters some readers ahead of their own; see Passes.td.
#include "passes/schedule/Passes.h"

#include "passes/analysis/GatheredState.h"
#include "llvm/ADT/DenseSet.h"

namespace dtc {
#define GEN_PASS_DEF_GATHERAHEAD
#include "passes/schedule/Passes.h.inc"
} // namespace dtc

using namespace mlir;
using namespace mlir::dt;

namespace {

/// Collects who reads a value, also through views.
void collectReaders(Value value, SmallVectorImpl<Operation *> &readers) {
  for (Operation *user : value.getUsers())
    if (dtc::isView(user))
      collectReaders(user->getResult(0), readers);
    else
      readers.push_back(user);
}

/// The gathers of a function, and the operations that read what they gather, each with its turn.
class Gathers {
public:
  explicit Gathers(Block &block) {
    std::vector<dtc::GatheredState> found = dtc::findGatheredState(block);
    if (found.empty())
      return;
    for (Operation &op : block)
      positions[&op] = 2 * static_cast<int64_t>(positions.size());
    DenseSet<Operation *> all;
    for (dtc::GatheredState &state : found) {
      SmallVector<Operation *> those;
      collectReaders(state.value(), those);
      if (those.empty())
        continue;
      all.insert(those.begin(), those.end());
      gathers.push_back({std::move(state.steps),
                         *llvm::min_element(those, [&](Operation *a, Operation *b) { return isEarlier(a, b); })});
    }
    llvm::append_range(readers, all);
    llvm::sort(readers, [&](Operation *a, Operation *b) { return isEarlier(a, b); });
    llvm::sort(gathers, [&](const Gather &a, const Gather &b) {
      return a.firstReader != b.firstReader ? isEarlier(a.firstReader, b.firstReader)
                                            : isEarlier(a.steps.front(), b.steps.front());
    });
    for (auto [turn, reader] : llvm::enumerate(readers))
      turns[reader] = turn;
  }

  /// Starts each gather `ahead` turns before its first reader's, in the order of their turns.
  void start(uint64_t ahead) {
    for (const Gather &gather : gathers) {
      uint64_t turn = turns.lookup(gather.firstReader);
      Operation *target = readers[turn < ahead ? 0 : turn - ahead];
      for (Operation *op : llvm::reverse(gather.steps))
        if (positions.lookup(op) > positions.lookup(target)) {
          op->moveBefore(target);
          positions[op] = positions.lookup(target) - 1;
        }
    }
  }

private:
  struct Gather {
    SmallVector<Operation *, 2> steps; ///< the last first
    Operation *firstReader;
  };

  bool isEarlier(Operation *a, Operation *b) const { return positions.lookup(a) < positions.lookup(b); }

  SmallVector<Gather> gathers;      ///< in the order of their first readers
  SmallVector<Operation *> readers; ///< in their order
  DenseMap<Operation *, uint64_t> turns;
  DenseMap<Operation *, int64_t> positions; ///< even; what is put before another operation gets its position minus one
};

struct GatherAhead : dtc::impl::GatherAheadBase<GatherAhead> {
  using GatherAheadBase::GatherAheadBase;

  void runOnOperation() override { Gathers(getOperation().front()).start(ahead); }
};

} // namespace
