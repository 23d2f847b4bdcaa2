// Asks the planner, and returns its answer in terms of the IR.
#include "passes/schedule/memory/MemoryPlan.h"

using namespace mlir;
using namespace mlir::dt;

namespace dtc {

/// Checks that all readers of an operand are done before something is written in its place.
static LogicalResult checkInPlace(const ReadRole &read) {
  for (auto [own, flat] : llvm::zip_equal(read.functions, read.role.functions))
    for (auto [number, command] : llvm::enumerate(flat.commands))
      for (const FlatResult &result : command.results)
        if (result.written >= 0 && llvm::any_of(command.after, [&, at = number](int before) {
              return before > static_cast<int>(at);
            }))
          return own.commands[number]->emitError(
              "cannot be done in place: its first operand is still needed; run dt-explicit-copies");
  return success();
}

FailureOr<MemoryPlan> MemoryPlan::compute(ModuleOp module, Kernels &kernels, int64_t role,
                                          ArrayRef<func::FuncOp> functions) {
  MemoryPlan plan;
  plan.read = std::make_unique<ReadRole>(readRole(module, kernels, role, functions));
  if (failed(checkInPlace(*plan.read)))
    return failure();
  for (auto [number, port] : llvm::enumerate(plan.read->ports))
    plan.ports[port.identity()] = static_cast<int>(number);
  std::vector<FlatOrder> orders;
  for (auto [number, function] : llvm::enumerate(plan.read->functions)) {
    plan.functions[function.function] = number;
    orders.push_back(foundOrder(plan.read->role.functions[number]));
  }
  plan.planner = std::make_unique<StepPlanner>(plan.read->role);
  plan.planner->plan(orders);
  return plan;
}

uint64_t MemoryPlan::offsetOf(func::FuncOp function, Value root) const {
  size_t number = numberOf(function);
  return planner->offsetOf(number, read->functions[number].values.lookup(root));
}

static uint64_t bytesInArena(const Temporary &each) { return each.part == Part::Host ? 0 : each.bytes; }

SmallVector<MemoryPlan::AtThePeak> MemoryPlan::atThePeak() const {
  SmallVector<std::pair<size_t, size_t>> peak; // functions and values
  uint64_t peakBytes = 0;
  auto bytesOfThose = [&](auto each) { return planner->homesOf(each.first).temporaries[each.second].bytes; };
  for (auto [number, function] : llvm::enumerate(read->functions)) {
    const std::vector<Temporary> &temporaries = planner->homesOf(number).temporaries;
    LiveBytes live(planner->endOf(number) + 1);
    for (const Temporary &each : temporaries)
      live.add(each.first, each.last, bytesInArena(each));
    if (live.most() <= peakBytes)
      continue;
    peakBytes = live.most();
    peak.clear();
    for (int at = live.firstOfMost(); auto [value, each] : llvm::enumerate(temporaries))
      if (bytesInArena(each) > 0 && each.first <= at && at <= each.last)
        peak.push_back({number, value});
  }
  llvm::sort(peak, [&](auto a, auto b) { // within one list, equal sizes in its order
    return bytesOfThose(a) != bytesOfThose(b) ? bytesOfThose(a) > bytesOfThose(b) : a < b;
  });
  return llvm::map_to_vector(
      peak, [&](auto each) { return AtThePeak{bytesOfThose(each), read->functions[each.first].roots[each.second]}; });
}

} // namespace dtc
