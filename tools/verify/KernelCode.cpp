#include "tools/verify/KernelCode.h"

#include "passes/lower/kernels/KernelPlan.h"

using namespace mlir::dt;

namespace dtc::verify {

KernelCode::KernelCode(KernelOp kernel, const KernelPlan &plan, LaunchShape shape, CodeFunction function,
                       std::vector<int64_t> scalars, RankContext rank)
    : kernel(kernel), plan(plan), shape(std::move(shape)), function(std::move(function)), scalars(std::move(scalars)),
      rank(std::move(rank)) {}

//===----------------------------------------------------------------------===//
// What is run
//===----------------------------------------------------------------------===//

/// Elements of the domain that one index of the grid covers, times the operations.
double KernelCode::workOfIndex() const {
  auto reduced = static_cast<double>(plan.product(plan.reduced));
  double elements = 1;
  if (plan.kind == KernelKind::Rows || (plan.kind == KernelKind::Flat && !plan.reductions.empty()))
    elements = static_cast<double>(plan.columns());
  else if (plan.kind == KernelKind::Columns)
    elements = reduced * static_cast<double>(shape.columnBlock);
  else if (plan.kind == KernelKind::Total)
    elements = reduced;
  return elements * static_cast<double>(plan.ops.size());
}

/// One index does all the work of a flat kernel that reduces: such a kernel is cut by the size that its launch passes.
/// -1: any other kernel.
int64_t KernelCode::flatSizeFor(double mostWork) const {
  if (plan.kind != KernelKind::Flat || (plan.reductions.empty() && plan.rank() > 0))
    return -1;
  constexpr int64_t tails = 4096; // keeps the remainder of vectors and groups
  int64_t most = static_cast<int64_t>(mostWork / static_cast<double>(plan.ops.size())) / tails * tails;
  return plan.columns() <= most + tails ? plan.columns() : std::max(most, tails) + plan.columns() % tails;
}

/// The whole grid where that is not too much, otherwise its beginning, its middle and its end.
std::vector<KernelCode::Stretch> KernelCode::chooseStretches(double mostWork) const {
  auto length = static_cast<int64_t>(std::max(1.0, mostWork / workOfIndex() / 3));
  if (3 * length >= shape.grid)
    return {{0, shape.grid}};
  int64_t middle = shape.grid / 2 - length / 2;
  return {{0, length}, {middle, middle + length}, {shape.grid - length, shape.grid}};
}

/// What indices of the grid write of an output; KernelPlan.h says what an index does.
std::vector<int64_t> KernelCode::elementsOf(unsigned output, const std::vector<Stretch> &stretches,
                                            int64_t flatSize) const {
  std::vector<int64_t> elements;
  int64_t columns = plan.columns();
  auto append = [&](int64_t begin, int64_t end) {
    for (int64_t element = begin; element < end; ++element)
      elements.push_back(element);
  };
  bool hasColumns = plan.hasColumns(plan.outputSpans[output]);
  for (auto [begin, end] : stretches) {
    if (plan.kind == KernelKind::Flat && flatSize >= 0)
      append(0, hasColumns ? flatSize : 1);
    else if (plan.kind == KernelKind::Rows && hasColumns)
      append(begin * columns, end * columns);
    else if (plan.kind == KernelKind::Columns) {
      int64_t blocks = (columns + shape.columnBlock - 1) / shape.columnBlock;
      for (int64_t index = begin; index < end; ++index) {
        int64_t from = index % blocks * shape.columnBlock, kept = index / blocks * columns;
        append(kept + from, kept + std::min(columns, from + shape.columnBlock));
      }
    } else
      append(begin, end);
  }
  return elements;
}

/// For a block of columns over so many rows that it takes long: the first columns and the last.
bool KernelCode::isSampled(int64_t element) const {
  int64_t column = element % plan.columns(), inBlock = column % shape.columnBlock;
  int64_t rest = std::min(plan.columns() - column, shape.columnBlock - inBlock);
  constexpr int64_t first = 2, last = 18; // a vector and its tail
  return inBlock < first || rest <= last;
}

//===----------------------------------------------------------------------===//
// One run
//===----------------------------------------------------------------------===//

/// From the last part to the first: otherwise the next part would overwrite what a part writes beyond its end.
void KernelCode::call(const CodeTrial &trial, const std::vector<Stretch> &stretches, int64_t flatSize,
                      const std::vector<void *> &buffers) const {
  std::vector<int64_t> told = scalars;
  if (flatSize >= 0)
    told[0] = flatSize;
  for (auto [begin, end] : llvm::reverse(stretches)) {
    int64_t part = (end - begin + trial.parts - 1) / trial.parts;
    for (int64_t from = begin + (end - begin - 1) / part * part; from >= begin; from -= part)
      function(buffers.data(), told.data(), from, std::min(end, from + part));
  }
}

CodeResult KernelCode::run(const CodeTrial &trial) const {
  constexpr double byFar = 30;
  int64_t flatSize = flatSizeFor(trial.mostWork);
  if (flatSize < 0 && workOfIndex() > byFar * trial.mostWork)
    return {"", 0, false, true};
  std::vector<Stretch> stretches = chooseStretches(trial.mostWork);
  bool thins = plan.kind == KernelKind::Columns && workOfIndex() > trial.mostWork;
  std::string parts = "grid in " + std::to_string(trial.parts) + (trial.parts == 1 ? " part" : " parts");
  KernelRun run(kernel, plan, rank, {trial.inPlace, trial.draw, 0, parts}, flatSize);
  for (unsigned output = 0; output < plan.outputs.size(); ++output) {
    std::vector<int64_t> elements = elementsOf(output, stretches, flatSize), compared = elements;
    if (thins)
      llvm::erase_if(compared, [&](int64_t element) { return !isSampled(element); });
    run.expect(std::move(elements), std::move(compared));
  }
  return run.call([&](const std::vector<void *> &buffers) {
    call(trial, stretches, flatSize, buffers);
    return "";
  });
}

} // namespace dtc::verify
