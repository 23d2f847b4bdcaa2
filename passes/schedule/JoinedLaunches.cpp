#include "passes/schedule/JoinedLaunches.h"

#include "dialect/IR/ElementwiseKernel.h"

using namespace mlir;
using namespace mlir::dt;

namespace dtc {

JoinedLaunches::JoinedLaunches(func::FuncOp function, ArenaLayout &arena, Kernels &kernels)
    : function(function), arena(arena), kernels(kernels) {
  auto close = [&] {
    for (const Group &group : open)
      groups[group.launches.front()] = group.launches;
    open.clear();
  };
  for (Operation &op : function.front().without_terminator()) {
    if (auto launch = dyn_cast<LaunchOp>(op))
      visit(launch);
    else if (!isa<ViewOpInterface>(op))
      close(); // what else there is may touch anything, or should begin as soon as it can
  }
  close();
}

ArrayRef<LaunchOp> JoinedLaunches::at(LaunchOp launch) const {
  auto found = groups.find(launch);
  return found == groups.end() ? ArrayRef<LaunchOp>() : ArrayRef<LaunchOp>(found->second);
}

/// Adds a launch to the first group that it continues and to whose place it can be moved, or opens one.
void JoinedLaunches::visit(LaunchOp launch) {
  Group own{formulaOf(launch), {launch}, {}, {}};
  for (Value operand : launch.getOperands())
    own.read.push_back(rangeOf(operand));
  for (Value result : launch.getResults())
    own.written.push_back(rangeOf(result));
  auto *group = llvm::find_if(open, [&](const Group &each) {
    return own.formula > 0 && each.formula == own.formula && continues(each, launch);
  });
  if (group == open.end() ||
      std::any_of(group + 1, open.end(), [&](const Group &between) { return isInTheWay(between, own); })) {
    open.push_back(std::move(own));
    return;
  }
  group->launches.push_back(launch);
  llvm::append_range(group->read, own.read);
  llvm::append_range(group->written, own.written);
}

unsigned JoinedLaunches::formulaOf(LaunchOp launch) {
  auto [known, isNew] = formulaOfKernel.try_emplace(launch.getKernel());
  if (KernelOp kernel = kernels.kernelOf(launch); isNew && isElementwise(kernel))
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
  LaunchOp last = group.launches.back();
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

/// Whether a launch cannot be done before these: one writes what the other touches.
bool JoinedLaunches::isInTheWay(const Group &between, const Group &launch) const {
  auto overlap = [](ArrayRef<Range> some, ArrayRef<Range> others) {
    return llvm::any_of(some, [&](Range a) {
      return llvm::any_of(others, [&](Range b) { return a.first < b.second && b.first < a.second; });
    });
  };
  return overlap(between.written, launch.read) || overlap(between.written, launch.written) ||
         overlap(between.read, launch.written);
}

} // namespace dtc
