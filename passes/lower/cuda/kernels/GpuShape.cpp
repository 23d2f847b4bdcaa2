// The choice of loops and threads for a kernel.
#include "passes/lower/cuda/kernels/GpuShape.h"

#include "dialect/IR/ElementTypes.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace dtc;

using llvm::divideCeil;

namespace {

constexpr int64_t mostColumnLanes = 4;  ///< of a thread of Columns
constexpr int64_t rowBlock = 128;       ///< threads of a block whose rows belong to parts of warps
constexpr int64_t mostRowThreads = 512; ///< that share a row which they hold
/// For longer rows: threads that share one, elements that each requests at a time, and lanes. With
/// GpuShape::longRowBlocks such blocks each thread has 64 registers.
constexpr int64_t longRowThreads = 512, longRowElements = 8, longRowLanes = 4;
constexpr int64_t heldElements = 48;  ///< of a row that a thread keeps in registers, of all inputs together
constexpr int64_t askedElements = 32; ///< that a thread of Columns requests before it waits
constexpr int64_t longFlat = 16384;   ///< from this many elements on, one block no longer sums them up by itself
constexpr int64_t columnBlocks = 512; ///< blocks that Columns aims at: some for each processor of a large device

int64_t bytesOfElement(Value value) { return dt::elementTypeOf(value.getType()).bytes; }

class ShapeChooser {
public:
  explicit ShapeChooser(const KernelPlan &plan) : plan(plan) {}

  GpuShape choose() {
    bool isLongFlat = plan.kind == KernelKind::Flat && plan.columns() > longFlat;
    if (plan.reductions.empty())
      chooseElements();
    else if (plan.kind == KernelKind::Columns)
      chooseColumns();
    else if (plan.kind == KernelKind::Total || isLongFlat)
      chooseLinear();
    else
      chooseRows();
    return shape;
  }

private:
  unsigned lanes() const;
  int64_t heldInputs() const;
  int64_t kept() const { return plan.product(plan.gridSpan()); }
  void chooseElements();
  void chooseRows();
  void chooseLinear();
  void chooseColumns();
  void setScratch(int64_t results) {
    shape.scratchBytes = plan.reductions.size() * results * shape.parts * GpuShape::partialBytes;
  }

  const KernelPlan &plan;
  GpuShape shape;
};

} // namespace

/// As many as 16 bytes hold of the widest elements that are read or written along the columns, if rows begin at such
/// multiples. A flat kernel's count is not known here: it computes the remainder one by one.
unsigned ShapeChooser::lanes() const {
  int64_t widest = abi::elementType(abi::BF16).bytes;
  for (auto [instance, sweep] : plan.lastLoad)
    if (plan.hasColumns(instance.second))
      widest = std::max(widest, bytesOfElement(instance.first));
  bool storesVectors = plan.kind == KernelKind::Flat || plan.kind == KernelKind::Rows;
  for (auto [output, span] : llvm::zip_equal(plan.outputs, plan.outputSpans))
    if (storesVectors && plan.hasColumns(span))
      widest = std::max(widest, bytesOfElement(output));
  int64_t lanes = GpuShape::bufferAlignment / widest;
  // There is an accumulator for each lane and reduction, besides what is requested: more lanes would not fit into
  // registers. 8 bytes of each of a warp's threads are whole lines of memory, too.
  if (plan.kind == KernelKind::Columns)
    lanes = std::min(lanes, mostColumnLanes);
  while (plan.kind != KernelKind::Flat && plan.columns() % lanes != 0)
    lanes /= 2;
  return lanes;
}

void ShapeChooser::chooseElements() {
  if (plan.rank() == 0) {
    shape.passes = {{1, GpuShape::warp}};
    return;
  }
  shape.lanes = lanes();
  int64_t vectors =
      plan.kind == KernelKind::Flat ? divideCeil(plan.columns(), shape.lanes) : kept() * (plan.columns() / shape.lanes);
  shape.passes = {{int64_t(divideCeil(vectors, GpuShape::threads)), GpuShape::threads}};
}

/// Inputs of which a thread reads its share of a row, and not only what all rows have in common.
int64_t ShapeChooser::heldInputs() const {
  return llvm::count_if(plan.lastLoad, [&](const auto &each) { return each.first.second == plan.fullSpan(); });
}

void ShapeChooser::chooseRows() {
  shape.skeleton = GpuSkeleton::Rows;
  shape.lanes = lanes();
  while (plan.columns() % shape.lanes != 0) // of a flat kernel too: its one row is as long as it is here
    shape.lanes /= 2;
  int64_t vectors = plan.columns() / shape.lanes;
  int64_t most = std::max<int64_t>(1, heldElements / (shape.lanes * std::max<int64_t>(1, heldInputs())));
  shape.rowThreads = std::min<int64_t>(GpuShape::warp, llvm::PowerOf2Ceil(vectors));
  while (shape.rowThreads < mostRowThreads && shape.rowThreads * most < vectors)
    shape.rowThreads *= 2;
  if (shape.rowThreads * most >= vectors) {
    shape.heldVectors = divideCeil(vectors, shape.rowThreads);
  } else {
    shape.lanes = std::min<unsigned>(shape.lanes, longRowLanes);
    shape.rowThreads = longRowThreads;
    shape.vectorsOfRound = divideCeil(longRowElements, shape.lanes);
  }
  int64_t threads = shape.rowThreads > GpuShape::warp ? shape.rowThreads : rowBlock;
  shape.passes = {{int64_t(divideCeil(kept(), threads / shape.rowThreads)), threads}};
}

void ShapeChooser::chooseLinear() {
  shape.skeleton = GpuSkeleton::Linear;
  shape.lanes = lanes();
  int64_t vectors =
      plan.kind == KernelKind::Flat ? plan.columns() / shape.lanes : plan.product(plan.reduced) / shape.lanes;
  int64_t most = plan.kind == KernelKind::Flat ? GpuShape::mostParts : divideCeil(GpuShape::mostParts, kept());
  int64_t least = divideCeil(vectors, GpuShape::vectorsOfLongestPart);
  shape.parts = std::max(least, std::clamp<int64_t>(divideCeil(vectors, GpuShape::vectorsOfPart), 1, most));
  shape.passes.assign(plan.numSweeps, {kept() * shape.parts, GpuShape::threads});
  bool hasScalars = llvm::any_of(plan.outputSpans, [&](Span span) { return !plan.hasColumns(span); });
  if (hasScalars)
    shape.passes.push_back({kept(), GpuShape::threads});
  setScratch(kept());
}

void ShapeChooser::chooseColumns() {
  shape.skeleton = GpuSkeleton::Columns;
  shape.lanes = lanes();
  int64_t blocks = kept() * divideCeil(plan.columns(), GpuShape::columnVectors * shape.lanes);
  shape.rowsOfRound =
      std::clamp<int64_t>(askedElements / (shape.lanes * std::max<int64_t>(1, heldInputs())), 1, GpuShape::leastRounds);
  int64_t rows = plan.product(plan.reduced);
  int64_t most = divideCeil(rows, GpuShape::leastRounds * GpuShape::rowsAtOnce);
  int64_t least = divideCeil(rows, GpuShape::rowsAtOnce * GpuShape::longestChain);
  shape.parts = std::max(least, std::clamp<int64_t>(columnBlocks / blocks, 1, most));
  shape.parts = divideCeil(rows, divideCeil(rows, shape.parts)); // none is empty
  shape.passes = {{blocks * shape.parts, GpuShape::threads}};
  if (shape.parts == 1)
    return;
  shape.passes.push_back({kept() * int64_t(divideCeil(plan.columns(), GpuShape::columnVectors)), GpuShape::threads});
  setScratch(kept() * plan.columns());
}

GpuShape dtc::gpuShapeOf(const KernelPlan &plan) { return ShapeChooser(plan).choose(); }
