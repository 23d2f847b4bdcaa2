// dt-verify-when: the proof that no two tensors alive together share memory. Nothing here uses the planner: lifetimes
// are worked out again from the operations, and compared with the offsets in the module; timetables are checked by the
// rules of programs.
#include "passes/analysis/GatheredState.h"
#include "passes/analysis/Stages.h"
#include "passes/lower/Targets.h"
#include "passes/lower/kernels/Kernels.h"
#include "passes/schedule/Passes.h"
#include "passes/schedule/memory/ArenaLayout.h"
#include "passes/schedule/timetables/CheckTimetables.h"
#include "passes/schedule/timetables/PlacedEntries.h"

#include "dialect/IR/Names.h"

#include <map>
#include <set>

namespace dtc {
#define GEN_PASS_DEF_VERIFYWHEN
#include "passes/schedule/Passes.h.inc"
} // namespace dtc

using namespace mlir;
using namespace mlir::dt;

namespace {

/// A tensor's memory, and how long it must keep its contents: up to and including the operation at `last`.
struct Life {
  Value root; ///< null for a tensor that the function does not mention
  PortAttr port;
  uint64_t begin, end;
  int first, last;
};

/// How long a tensor must stay for those that read it.
struct Readers {
  Operation *last = nullptr;            ///< the reader that needs it longest
  int until = -1, untilBeforeLast = -1; ///< for that reader, and for all others
  void add(Operation *reader, int needed) {
    if (reader == last) {
      until = std::max(until, needed);
    } else if (needed > until) {
      untilBeforeLast = until;
      until = needed;
      last = reader;
    } else {
      untilBeforeLast = std::max(untilBeforeLast, needed);
    }
  }
  int untilWithout(Operation *reader) const { return reader == last ? untilBeforeLast : until; }
};

/// The check of one function.
class FunctionCheck {
public:
  FunctionCheck(func::FuncOp function, dtc::ArenaLayout &arena, dtc::Kernels &kernels)
      : function(function), arena(arena), kernels(kernels), layouts(arena.layoutsOf(function)),
        places(*dtc::FunctionOffsets::of(function)), kernelAlignment(dtc::targetOf(function).getBufferAlignment()) {
    positions.reserve(function.front().getOperations().size());
    for (Operation &op : function.front())
      positions[&op] = end++;
  }

  LogicalResult run() {
    findReads();
    SmallVector<Life> lives = namedLives();
    for (Operation &op : function.front().without_terminator()) {
      if (failed(checkShared(&op)) || failed(checkHost(&op)) || failed(checkAligned(&op)))
        return failure();
      for (OpResult result : op.getResults())
        if (arena.hasOffset(result))
          lives.push_back(lifeOf(result));
    }
    llvm::stable_sort(lives, [](const Life &a, const Life &b) { return a.first < b.first; });
    for (const Life &life : lives)
      if (failed(enter(life)))
        return failure();
    return checkResults();
  }

private:
  Value rootOf(Value value) { return layouts.rootOf(value); }

  /// Finds who reads each value, and who first writes a part of it.
  void findReads() {
    reads.reserve(end);
    for (Operation &op : function.front()) {
      for (Value operand : op.getOperands()) {
        int until = positions[&op];
        // What a collective or a copy reads must stay until it has been waited for.
        if (isa<CollectiveOpInterface, HostCopyOpInterface>(op))
          for (Operation *wait : op.getResult(0).getUsers())
            until = std::max(until, positions[wait]);
        reads[rootOf(operand)].add(&op, until);
      }
      if (!isa<ViewOpInterface>(op) && !op.hasTrait<Waits>())
        for (Value result : op.getResults())
          if (Value root = rootOf(result); root != result)
            firstParts.try_emplace(root, positions[&op]);
    }
  }

  /// Tensors that functions hand on live from the beginning: until their last read if the function writes a new value,
  /// otherwise to the end.
  SmallVector<Life> namedLives() {
    DenseMap<PortIdentity, BlockArgument> arguments;
    for (BlockArgument argument : function.getArguments())
      arguments[argumentPort(function, argument.getArgNumber()).identity()] = argument;
    DenseSet<uint64_t> written; // offsets
    written.insert_range(places.results);
    SmallVector<Life> lives;
    std::set<dtc::OwnedSpace> owned = dtc::ownedBy(function);
    for (const dtc::PlacedTensor &tensor : arena.tensors()) {
      if (!isHere(tensor, owned))
        continue;
      BlockArgument argument = arguments.lookup(tensor.port.identity());
      bool isWritten = written.contains(tensor.offset);
      if (argument || !isWritten) {
        int last = !argument || !isWritten ? end : lastReadOf(argument);
        lives.push_back({argument, tensor.port, tensor.offset, tensor.offset + tensor.bytes(), -1, last});
      }
    }
    return lives;
  }

  /// What belongs to a micro-batch is there if its stage has the place in which the function works.
  static bool isHere(const dtc::PlacedTensor &tensor, const std::set<dtc::OwnedSpace> &owned) {
    return !tensor.port.isOfMicroBatch() || llvm::any_of(owned, [&](auto each) {
      return each.first == dtc::spaceOf(tensor.port, /*shared=*/false) && tensor.stages.contains(each.second);
    });
  }

  int lastReadOf(Value root) {
    auto found = reads.find(root);
    return found == reads.end() ? -1 : found->second.until;
  }

  Life lifeOf(OpResult result) {
    uint64_t begin = arena.offsetOf(result);
    int first = positions[result.getOwner()];
    if (auto part = firstParts.find(result); part != firstParts.end())
      first = std::min(first, part->second);
    return {result, {}, begin, begin + bytesOf(result.getType()), first, std::max(first, lastReadOf(result))};
  }

  /// Adds a tensor to those that are alive. Lives come in the order in which they begin.
  LogicalResult enter(const Life &life) {
    bool isOfHost = arena.isOfHost(life.begin);
    if (life.begin % arena.alignment() != 0 || life.end > arena.bytes() + (isOfHost ? arena.hostBytes() : 0))
      return report(life) << "M3: " << describe(life) << " lies in [" << life.begin << ", " << life.end
                          << "), which is not a place at a multiple of " << arena.alignment() << " in the arena of "
                          << arena.bytes() << " bytes";
    bool hasPlaces = !life.port || !life.port.isOfMicroBatch();
    for (const dtc::PlacedSpace &space : arena.spaces()) {
      if (failed(checkPlaces(life, space)))
        return failure();
      hasPlaces |= life.begin >= space.base && life.end <= space.end();
    }
    if (!hasPlaces)
      return report(life) << "M8: " << describe(life) << " lies in [" << life.begin << ", " << life.end
                          << "), where micro-batches under way have no places of their own";
    auto other = alive.upper_bound(life.begin);
    if (other != alive.begin() && std::prev(other)->second.end > life.begin)
      --other;
    while (other != alive.end() && other->second.begin < life.end) {
      if (other->second.last >= life.first && !isOverwritten(other->second, life))
        return report(life) << "M4: " << describe(life) << " lies in [" << life.begin << ", " << life.end << "), where "
                            << describe(other->second) << " in [" << other->second.begin << ", " << other->second.end
                            << ") is still alive";
      other = alive.erase(other);
    }
    if (life.begin < life.end)
      alive.emplace(life.begin, life);
    return success();
  }

  /// In memory of several places a tensor is within the first place, with nothing else there: then the same tensor of
  /// another micro-batch is within another place.
  LogicalResult checkPlaces(const Life &life, const dtc::PlacedSpace &space) {
    bool isWithin = life.begin >= space.base && life.end <= space.base + space.stride;
    bool isBeside = life.end <= space.base || life.begin >= space.end();
    if (isWithin || isBeside)
      return success();
    return report(life) << "M8: " << describe(life) << " lies in [" << life.begin << ", " << life.end
                        << "), across the places of space '" << dtc::spaceNames[space.number] << "', which begin at "
                        << space.base << ", " << space.places << " of " << space.stride << " bytes";
  }

  /// Whether the operation that makes `fresh` writes it, element by element, over what it reads of `old` for the last
  /// time. Arguments that are one tensor's memory under two names have the same contents.
  bool isOverwritten(const Life &old, const Life &fresh) {
    auto result = dyn_cast_or_null<OpResult>(fresh.root);
    if (!result || !old.root)
      return !result && old.begin == fresh.begin && old.port && fresh.port && old.port.isGradient() &&
             fresh.port.isGradient();
    Operation *op = result.getOwner();
    if (old.begin != fresh.begin || old.end != fresh.end)
      return false;
    if (auto found = reads.find(old.root); found != reads.end() && found->second.untilWithout(op) >= fresh.first)
      return false;
    SmallVector<unsigned> aligned = kernels.inPlaceOperands(op, result.getResultNumber());
    for (auto [index, operand] : llvm::enumerate(op->getOperands()))
      if (rootOf(operand) == old.root && !llvm::is_contained(aligned, index))
        return false;
    return llvm::any_of(op->getOperands(), [&](Value operand) { return rootOf(operand) == old.root; });
  }

  /// Checks that what a collective reads and writes is visible to the peers.
  LogicalResult checkShared(Operation *op) {
    SmallVector<Value> moved;
    if (isa<CollectiveOpInterface, SendOp, RecvOp>(op)) {
      llvm::append_range(moved, op->getOperands());
      llvm::append_range(moved, op->getResults());
    }
    for (Value value : moved)
      if (arena.offsetOf(rootOf(value)) < arena.sharedBegin())
        return op->emitError("M5: what a collective reads or writes lies at ")
               << arena.offsetOf(rootOf(value)) << ", before the part of the arena that peers see, which begins at "
               << arena.sharedBegin();
    return success();
  }

  /// Checks that only copies to the host write its memory, and only copies back read it.
  LogicalResult checkHost(Operation *op) {
    if (dtc::isView(op) || op->hasTrait<Waits>())
      return success();
    auto copy = dyn_cast<HostCopyOpInterface>(op);
    auto check = [&](Value value, bool isOfHost) -> LogicalResult {
      if (arena.isOfHost(arena.offsetOf(rootOf(value))) == isOfHost)
        return success();
      return op->emitError("M10: what it reads or writes lies ")
             << (isOfHost ? "in the arena, at " : "in the host's memory, behind the arena, at ")
             << arena.offsetOf(rootOf(value)) << (isOfHost ? ", and not in the host's memory" : "");
    };
    for (Value operand : op->getOperands())
      if (failed(check(operand, copy && !copy.isToHost())))
        return failure();
    for (Value result : op->getResults())
      if (failed(check(result, copy && copy.isToHost())))
        return failure();
    return success();
  }

  /// A kernel's operand may be a part of another tensor.
  LogicalResult checkAligned(Operation *op) {
    if (kernelAlignment == 1)
      return success();
    for (auto [i, operand] : llvm::enumerate(op->getOperands()))
      if (!dtc::mustBeAligned(op, i))
        continue;
      else if (uint64_t address = arena.addressOf(function, operand); address % kernelAlignment != 0)
        return op->emitError("M7: operand ") << i << " lies at " << address << ", which is not a multiple of the "
                                             << kernelAlignment << " bytes that the target's kernels expect";
    return success();
  }

  /// Checks that what is returned is where its port says.
  LogicalResult checkResults() {
    for (OpOperand &result : function.front().getTerminator()->getOpOperands()) {
      unsigned i = result.getOperandNumber();
      uint64_t wanted = places.results[i];
      const dtc::Place &place = layouts.placeOf(result.get());
      if (!place.isWhole() || arena.offsetOf(place.root) != wanted)
        return function.emitError("M6: result ") << i << " (" << resultPort(function, i).describe()
                                                 << ") is not computed at " << wanted << ", where it must be stored";
    }
    return success();
  }

  InFlightDiagnostic report(const Life &life) {
    return life.root && life.root.getDefiningOp() ? life.root.getDefiningOp()->emitError() : function.emitError();
  }

  static std::string describe(const Life &life) {
    if (life.port)
      return life.port.describe();
    std::string text;
    llvm::raw_string_ostream(text) << "the result of '" << life.root.getDefiningOp()->getName() << "' ("
                                   << life.root.getType() << ")";
    return text;
  }

  func::FuncOp function;
  dtc::ArenaLayout &arena;
  dtc::Kernels &kernels;
  dtc::Layouts &layouts;
  const dtc::FunctionOffsets places; ///< as read by the arena
  const uint64_t kernelAlignment;
  int end = 0; ///< the number of operations
  DenseMap<Operation *, int> positions;
  DenseMap<Value, Readers> reads;
  DenseMap<Value, int> firstParts; ///< for assembled values: where the first part is written
  std::map<uint64_t, Life> alive;  ///< by where they begin; dead ones leave when something takes their place
};

struct VerifyWhen : dtc::impl::VerifyWhenBase<VerifyWhen> {
  using VerifyWhenBase::VerifyWhenBase;

  void runOnOperation() override {
    dtc::Kernels kernels(getOperation());
    if (failed(kernels.describeAll()))
      return signalPassFailure();
    dtc::Duties duties = dtc::dutiesIn(getOperation());
    for (auto [number, functions] : llvm::enumerate(dtc::functionsOfRoles(getOperation()))) {
      auto role = static_cast<int64_t>(number);
      FailureOr<dtc::ArenaLayout> arena = dtc::ArenaLayout::read(getOperation(), role, functions);
      if (failed(arena))
        return signalPassFailure();
      for (func::FuncOp function : functions)
        if (failed(FunctionCheck(function, *arena, kernels).run()))
          return signalPassFailure();
      if (failed(dtc::checkTimetables(getOperation(), role, functions, duties, accumulation)))
        return signalPassFailure();
    }
    markAllAnalysesPreserved();
  }
};

} // namespace
