// Lays named tensors and temporaries out in the arena.
#include "passes/lower/MemoryPlan.h"
#include "passes/lower/FunctionPlanner.h"

#include "dialect/IR/Names.h"

#include <algorithm>
#include <vector>

using namespace mlir;
using namespace mlir::dt;

namespace dtc {

/// Whole cache lines, so that no two tensors share one.
constexpr uint64_t alignment = 64;
/// The visible part begins on a page, huge where there are huge pages.
constexpr uint64_t pageBytes = 2 << 20;

static uint64_t alignTo(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

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

NamedTensor &MemoryPlan::ownerOf(int tensor) {
  while (named[tensor].alias >= 0)
    tensor = named[tensor].alias;
  return named[tensor];
}

/// Named tensors in the order of their kinds, each kind's side by side.
uint64_t MemoryPlan::placeNamed(bool shared, uint64_t begin) {
  SmallVector<NamedTensor *> order;
  for (NamedTensor &tensor : named)
    if (tensor.alias < 0 && tensor.shared == shared)
      order.push_back(&tensor);
  llvm::stable_sort(order, [](NamedTensor *a, NamedTensor *b) { return a->port.getKind() < b->port.getKind(); });
  for (NamedTensor *tensor : order) {
    tensor->offset = begin;
    begin = alignTo(begin + tensor->bytes(), alignment);
  }
  return begin;
}

/// Temporaries of one list, equal sizes in the list's order.
static bool largerFirst(const Temporary *a, const Temporary *b) {
  return a->bytes != b->bytes ? a->bytes > b->bytes : a < b;
}

/// Places the temporaries, largest first, each at the lowest offset where no temporary alive at the same time lies.
/// Gives the end of the highest.
static uint64_t placeTemporaries(SmallVectorImpl<Temporary> &temporaries, bool shared, uint64_t begin) {
  SmallVector<Temporary *> order;
  for (Temporary &temporary : temporaries)
    if (temporary.shared == shared)
      order.push_back(&temporary);
  llvm::sort(order, largerFirst);
  uint64_t end = begin;
  struct Placed {
    uint64_t begin, end;
    int first, last;
  };
  std::vector<Placed> placed; // by begin; side by side in memory, since each temporary looks at all before it
  for (Temporary *temporary : order) {
    uint64_t offset = begin, bytes = alignTo(temporary->bytes, alignment);
    for (const Placed &other : placed) {
      if (other.first > temporary->last || temporary->first > other.last)
        continue;
      if (other.begin >= offset + bytes)
        break;
      offset = std::max(offset, other.end);
    }
    temporary->offset = offset;
    auto after = llvm::upper_bound(placed, offset, [](uint64_t at, const Placed &other) { return at < other.begin; });
    placed.insert(after, {offset, offset + bytes, temporary->first, temporary->last});
    end = std::max(end, offset + bytes);
  }
  return end;
}

void MemoryPlan::layOut() {
  localTemporaries = placeNamed(/*shared=*/false, 0);
  localEnd = localTemporaries;
  for (auto &[function, list] : temporaries)
    localEnd = std::max(localEnd, placeTemporaries(list, /*shared=*/false, localTemporaries));
  sharedStart = alignTo(localEnd, pageBytes);
  sharedTemporaries = end = placeNamed(/*shared=*/true, sharedStart);
  for (auto &[function, list] : temporaries)
    end = std::max(end, placeTemporaries(list, /*shared=*/true, sharedTemporaries));
  for (auto [index, tensor] : llvm::enumerate(named))
    if (tensor.alias >= 0)
      tensor.offset = ownerOf(index).offset;
}

FailureOr<MemoryPlan> MemoryPlan::compute(ModuleOp module, uint64_t limit) {
  MemoryPlan plan;
  Kernels kernels(module);
  if (failed(kernels.describeAll()))
    return failure();
  for (auto function : module.getOps<func::FuncOp>())
    plan.layouts.insert({function, std::make_unique<Layouts>(function)});
  for (auto function : module.getOps<func::FuncOp>())
    if (failed(FunctionPlanner(plan, function, kernels).run()))
      return failure();
  plan.layOut();
  if (failed(plan.checkLimit(module, limit)))
    return failure();
  return plan;
}

/// Names the largest temporaries alive where most bytes are alive.
LogicalResult MemoryPlan::checkLimit(ModuleOp module, uint64_t limit) {
  if (limit == 0 || end <= limit)
    return success();
  SmallVector<const Temporary *> peak;
  uint64_t peakBytes = 0;
  for (auto &[function, list] : temporaries)
    for (const Temporary &at : list) {
      SmallVector<const Temporary *> alive;
      uint64_t bytes = 0;
      for (const Temporary &other : list)
        if (other.first <= at.first && at.first <= other.last) {
          alive.push_back(&other);
          bytes += other.bytes;
        }
      if (bytes > peakBytes) {
        peakBytes = bytes;
        peak = std::move(alive);
      }
    }
  InFlightDiagnostic error = module.emitError("a rank needs ")
                             << end << " bytes, the limit is " << limit
                             << "; use more ranks, a smaller micro-batch or more accumulation";
  for (auto [category, bytes] : memoryUse())
    error.attachNote() << category << ": " << bytes << " bytes";
  llvm::sort(peak, largerFirst);
  for (const Temporary *temporary : ArrayRef(peak).take_front(10))
    error.attachNote(temporary->value.getLoc()) << "alive at the peak: " << temporary->bytes << " bytes";
  return error;
}

uint64_t MemoryPlan::addressOf(func::FuncOp function, Value value) {
  const Place &place = layoutsOf(function).placeOf(value);
  Home home = homes.lookup(place.root);
  uint64_t base = home >= 0 ? ownerOf(home).offset : temporaries[function][-1 - home].offset;
  return base + abi::bytesOf(elementTypeOf(value.getType()).type, place.view.offset);
}

SmallVector<std::pair<std::string, uint64_t>> MemoryPlan::memoryUse() const {
  auto ofKinds = [&](std::initializer_list<PortKind> kinds) {
    uint64_t bytes = 0;
    for (const NamedTensor &tensor : named)
      if (tensor.alias < 0 && llvm::is_contained(kinds, tensor.port.getKind()))
        bytes += alignTo(tensor.bytes(), alignment);
    return bytes;
  };
  uint64_t state = ofKinds({PortKind::Parameter}), slots = ofKinds({PortKind::Slot}),
           gradients = ofKinds({PortKind::Gradient, PortKind::ReducedGradient}),
           interface = ofKinds({PortKind::Input, PortKind::Output, PortKind::Share});
  uint64_t communication = end - sharedTemporaries;
  return {{"parameters", state},
          {"optimizer state", slots},
          {"gradients", gradients},
          {"inputs and outputs", interface},
          {"activations and workspace", localEnd - localTemporaries},
          {"communication buffers", communication},
          {"alignment", end - communication - (localEnd - localTemporaries) - state - slots - gradients - interface}};
}

} // namespace dtc
