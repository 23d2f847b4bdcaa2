#include "passes/schedule/JoinedLaunches.h"

#include "dialect/IR/ElementwiseKernel.h"

using namespace mlir;
using namespace mlir::dt;

namespace dtc {

/// A piece ends at `address`, or none lies there.
void JoinedLaunches::LastGroups::splitAt(uint64_t address) {
  auto piece = pieces.lower_bound(address);
  if (piece == pieces.begin() || std::prev(piece)->second.end <= address)
    return;
  --piece;
  pieces.emplace(address, Piece(piece->second));
  piece->second.end = address;
}

void JoinedLaunches::LastGroups::mark(Range range, int group) {
  splitAt(range.first);
  splitAt(range.second);
  uint64_t at = range.first; // all before it in the range is marked
  for (auto piece = pieces.lower_bound(at); piece != pieces.end() && piece->first < range.second; ++piece) {
    if (piece->first > at)
      pieces.emplace(at, Piece{piece->first, group});
    piece->second.group = std::max(piece->second.group, group);
    at = piece->second.end;
  }
  if (at < range.second)
    pieces.emplace(at, Piece{range.second, group});
}

int JoinedLaunches::LastGroups::in(Range range) const {
  auto piece = pieces.upper_bound(range.first);
  if (piece != pieces.begin() && std::prev(piece)->second.end > range.first)
    --piece;
  int last = -1;
  for (; piece != pieces.end() && piece->first < range.second; ++piece)
    last = std::max(last, piece->second.group);
  return last;
}

JoinedLaunches::JoinedLaunches(func::FuncOp function, ArenaLayout &arena, Kernels &kernels)
    : function(function), arena(arena), kernels(kernels) {
  SmallVector<LaunchOp> launches;
  for (Operation &op : function.front()) {
    if (auto launch = dyn_cast<LaunchOp>(op)) {
      launches.push_back(launch);
    } else if (!isa<ViewOpInterface>(op)) {
      visitAll(launches); // what else there is may touch anything, or should begin as soon as it can
      launches.clear();
    }
  }
}

/// Joins launches that follow each other. Most stand alone or beside others of other formulas: no need to ask where
/// these lie.
void JoinedLaunches::visitAll(ArrayRef<LaunchOp> launches) {
  SmallVector<unsigned> formulas = llvm::map_to_vector(launches, [&](LaunchOp each) { return formulaOf(each); });
  llvm::SmallDenseSet<unsigned> seen;
  if (llvm::all_of(formulas, [&](unsigned formula) { return formula == 0 || seen.insert(formula).second; })) {
    for (LaunchOp launch : launches)
      groups[launch] = {launch};
    return;
  }
  for (auto [launch, formula] : llvm::zip_equal(launches, formulas))
    visit(launch, formula);
  for (Group &group : open)
    groups[group.front()] = std::move(group);
  open.clear();
  endingAt.clear();
  readBy.clear();
  writtenBy.clear();
}

ArrayRef<LaunchOp> JoinedLaunches::at(LaunchOp launch) const {
  auto found = groups.find(launch);
  return found == groups.end() ? ArrayRef<LaunchOp>() : ArrayRef<LaunchOp>(found->second);
}

/// Adds a launch to the first group that it continues and to whose place it can be moved, or opens one.
void JoinedLaunches::visit(LaunchOp launch, unsigned formula) {
  Access access = accessOf(launch);
  int group = static_cast<int>(open.size());
  if (formula != 0) {
    // What continues a group begins where its first result ends.
    if (auto ending = endingAt.find({formula, access.written.front().first}); ending != endingAt.end())
      if (auto *found = llvm::find_if(ending->second, [&](int each) { return continues(open[each], launch); });
          found != ending->second.end() && !isInTheWay(*found, access)) {
        group = *found;
        ending->second.erase(found);
      }
    auto &ending = endingAt[{formula, access.written.front().second}];
    ending.insert(llvm::upper_bound(ending, group), group);
  }
  if (group == static_cast<int>(open.size()))
    open.emplace_back();
  open[group].push_back(launch);
  for (Range range : access.read)
    readBy.mark(range, group);
  for (Range range : access.written)
    writtenBy.mark(range, group);
}

JoinedLaunches::Access JoinedLaunches::accessOf(LaunchOp launch) const {
  Access access;
  for (Value operand : launch.getOperands())
    access.read.push_back(rangeOf(operand));
  for (Value result : launch.getResults())
    access.written.push_back(rangeOf(result));
  return access;
}

unsigned JoinedLaunches::formulaOf(LaunchOp launch) {
  auto [known, isNew] = formulaOfKernel.try_emplace(launch.getKernelAttr());
  if (!isNew)
    return known->second;
  if (KernelOp kernel = kernels.kernelOf(launch); isElementwise(kernel))
    known->second = formulas.try_emplace(mlir::dt::formulaOf(kernel), formulas.size() + 1).first->second;
  return known->second;
}

JoinedLaunches::Range JoinedLaunches::rangeOf(Value value) const {
  uint64_t begin = arena.addressOf(function, value);
  return {begin, begin + bytesOf(value.getType())};
}

static bool isShared(Value value) { return cast<RankedTensorType>(value.getType()).getRank() == 0; }

/// Whether each tensor begins where the group's ends, and the numbers that elements share are the same.
bool JoinedLaunches::continues(const Group &group, LaunchOp launch) const {
  LaunchOp last = group.back();
  auto follows = [&](Value before, Value next) {
    if (isShared(before))
      return before == next;
    auto isDense = [&](Value value) { return arena.layoutsOf(function).layoutOf(value).isDense(); };
    return isDense(before) && isDense(next) && rangeOf(before).second == rangeOf(next).first;
  };
  auto all = [&](auto before, auto next) {
    return llvm::all_of(llvm::zip_equal(before, next),
                        [&](auto pair) { return follows(std::get<0>(pair), std::get<1>(pair)); });
  };
  return all(last.getOperands(), launch.getOperands()) && all(last.getResults(), launch.getResults());
}

/// Whether a launch cannot be done before the groups behind this one: one writes what the other touches.
bool JoinedLaunches::isInTheWay(int group, const Access &launch) const {
  auto isTouched = [&](const LastGroups &by, ArrayRef<Range> ranges) {
    return llvm::any_of(ranges, [&](Range range) { return by.in(range) > group; });
  };
  return isTouched(writtenBy, launch.read) || isTouched(writtenBy, launch.written) || isTouched(readBy, launch.written);
}

} // namespace dtc
