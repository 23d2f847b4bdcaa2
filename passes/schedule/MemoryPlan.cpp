// Lays named tensors and temporaries out in the arena.
#include "passes/schedule/MemoryPlan.h"
#include "passes/schedule/FunctionPlanner.h"
#include "passes/schedule/StorageProblem.h"

#include "dialect/IR/Names.h"
#include "passes/lower/Targets.h"

#include <algorithm>

using namespace mlir;
using namespace mlir::dt;

namespace dtc {

/// The visible part begins on a page, huge where there are huge pages.
constexpr uint64_t pageBytes = 2 << 20;

int MemoryPlan::nameTensor(PortAttr port, Type type) {
  auto [it, isNew] = indexOf.try_emplace(port.identity(), named.size());
  if (isNew) {
    NamedTensor tensor;
    tensor.port = port;
    tensor.localType = cast<RankedTensorType>(type);
    named.push_back(std::move(tensor));
  }
  return it->second;
}

void MemoryPlan::moveInto(int tensor, int other) {
  int owner = ownerIndexOf(other);
  if (ownerIndexOf(tensor) == owner)
    return;
  if (named[tensor].owner >= 0)
    llvm::erase(named[named[tensor].owner].tenants, tensor);
  SmallVector<int, 1> moving = std::move(named[tensor].tenants);
  named[tensor].tenants.clear();
  moving.push_back(tensor);
  for (int tenant : moving)
    named[tenant].owner = owner;
  llvm::append_range(named[owner].tenants, moving);
}

/// The parameters that do not decay, of which an optimizer has another formula.
static DenseSet<StringAttr> findWithoutDecay(ModuleOp module) {
  DenseSet<StringAttr> names;
  if (auto parameters = module->getAttrOfType<ArrayAttr>(module_attr::parameters))
    for (auto parameter : parameters.getAsRange<ParamAttr>())
      if (!parameter.getDecays())
        names.insert(parameter.getName());
  return names;
}

/// Named tensors in the order of their kinds, each kind's side by side as they are named: first what belongs to
/// parameters that decay, and of these and the others first to those with copies, so that one launch can update many
/// (JoinedLaunches.h).
uint64_t MemoryPlan::placeNamed(bool shared, uint64_t begin) {
  SmallVector<NamedTensor *> order;
  DenseSet<StringAttr> copied;
  for (NamedTensor &tensor : named)
    if (tensor.port.getKind() == PortKind::Copy)
      copied.insert(tensor.port.getName());
  for (NamedTensor &tensor : named)
    if (tensor.owner < 0 && tensor.shared == shared && !tensor.port.isOfMicroBatch())
      order.push_back(&tensor);
  auto placeOf = [&](const NamedTensor *tensor) {
    bool isLater = tensor->port.isOfParameter() && withoutDecay.contains(tensor->port.getName());
    bool lacksCopy = tensor->port.isOfParameter() && !copied.contains(tensor->port.getName());
    return std::tuple(tensor->port.getKind(), tensor->port.getSlot().getValue(), isLater, lacksCopy, tensor);
  };
  llvm::sort(order, [&](const NamedTensor *a, const NamedTensor *b) { return placeOf(a) < placeOf(b); });
  for (NamedTensor *tensor : order) {
    tensor->offset = begin;
    begin = alignTo(begin + tensor->bytes(), unit);
  }
  return begin;
}

/// What belongs to a micro-batch under way, as many times as there are such.
uint64_t MemoryPlan::placeSpaces(bool shared, uint64_t begin) {
  for (uint32_t number = stashSpace; number < numSpaces; ++number) {
    if (isShared(static_cast<Space>(number)) != shared)
      continue;
    uint64_t at = begin;
    for (NamedTensor &tensor : named)
      if (tensor.owner < 0 && tensor.port.isOfMicroBatch() && spaceOf(tensor.port, tensor.shared) == number) {
        tensor.offset = at;
        at = alignTo(at + tensor.bytes(), unit);
      }
    if (at == begin)
      continue;
    PlacedSpace &space = several.emplace_back();
    space = {number, begin, at - begin, numPlaces[number]};
    begin = space.end();
  }
  return begin;
}

/// Places the temporaries of one list in one part of the arena. Gives the end of the highest.
static uint64_t placeTemporaries(MutableArrayRef<Temporary> temporaries, bool shared, uint64_t begin, uint64_t unit) {
  StorageProblem problem{.intervals = {}, .unit = unit};
  SmallVector<Temporary *> placed;
  for (Temporary &temporary : temporaries)
    if (temporary.shared == shared) {
      placed.push_back(&temporary);
      problem.intervals.push_back({temporary.bytes, temporary.first, temporary.last});
    }
  StorageSolution solution = placeLargestFirst(problem);
  for (auto [temporary, offset] : llvm::zip_equal(placed, solution.offsets))
    temporary->offset = begin + offset;
  return begin + solution.end;
}

void MemoryPlan::layOut() {
  localTemporaries = placeNamed(/*shared=*/false, 0);
  localEnd = localTemporaries;
  for (auto &[function, list] : temporaries)
    localEnd = std::max(localEnd, placeTemporaries(list, /*shared=*/false, localTemporaries, unit));
  localEnd = placeSpaces(/*shared=*/false, localEnd);
  sharedStart = alignTo(localEnd, pageBytes);
  sharedTemporaries = end = placeNamed(/*shared=*/true, sharedStart);
  for (auto &[function, list] : temporaries)
    end = std::max(end, placeTemporaries(list, /*shared=*/true, sharedTemporaries, unit));
  end = placeSpaces(/*shared=*/true, end);
  for (auto [index, tensor] : llvm::enumerate(named))
    if (tensor.owner >= 0)
      tensor.offset = ownerOf(index).offset;
}

FailureOr<MemoryPlan> MemoryPlan::compute(ModuleOp module, int64_t stage) {
  MemoryPlan plan;
  plan.unit = targetOf(module).getPlaceAlignment();
  plan.withoutDecay = findWithoutDecay(module);
  Kernels kernels(module);
  if (failed(kernels.describeAll()))
    return failure();
  plan.numPlaces = placesOf(module, stage);
  SmallVector<func::FuncOp> functions = functionsOf(module, stage);
  for (func::FuncOp function : functions)
    plan.layouts.insert({function, std::make_unique<Layouts>(function)});
  for (func::FuncOp function : functions)
    if (failed(FunctionPlanner(plan, function, kernels).run()))
      return failure();
  plan.layOut();
  return plan;
}

SmallVector<const Temporary *> MemoryPlan::atThePeak() const {
  SmallVector<const Temporary *> peak;
  uint64_t peakBytes = 0;
  for (const auto &[function, list] : temporaries) {
    int positions = 0;
    for (const Temporary &each : list)
      positions = std::max(positions, each.last + 1);
    LiveBytes live(positions);
    for (const Temporary &each : list)
      live.add(each.first, each.last, each.bytes);
    if (live.most() <= peakBytes)
      continue;
    peakBytes = live.most();
    peak.clear();
    for (int at = live.firstOfMost(); const Temporary &each : list)
      if (each.first <= at && at <= each.last)
        peak.push_back(&each);
  }
  // Of one list: equal sizes in its order.
  llvm::sort(peak, [](auto *a, auto *b) { return a->bytes != b->bytes ? a->bytes > b->bytes : a < b; });
  return peak;
}

uint64_t MemoryPlan::offsetOf(func::FuncOp function, Value root) {
  Home home = homes.lookup(root);
  return home >= 0 ? ownerOf(home).offset : temporaries[function][-1 - home].offset;
}

} // namespace dtc
