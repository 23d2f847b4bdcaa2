// What the skeletons share.
#include "passes/lower/cuda/kernels/GpuLoops.h"

using namespace mlir;
using namespace dtc;

SmallVector<GpuReduction> GpuLoops::reductionsOf(unsigned sweep) const {
  SmallVector<GpuReduction> found;
  for (auto [reduce, at] : llvm::zip_equal(plan.reductions, plan.reductionSweep))
    if (at == sweep)
      found.emplace_back(plan, reduce);
  return found;
}

SmallVector<Value> GpuLoops::keptIndex(CodeBuilder &builder, Value number) {
  SmallVector<Value> index(plan.rank());
  function.decompose(builder, number, plan.gridSpan(), index);
  return index;
}

void GpuLoops::storeOutputs(KernelValues &values, Contexts contexts, ArrayRef<Value> exist, unsigned sweep) {
  SmallVector<unsigned> outputs;
  for (unsigned output = 0; output < plan.outputs.size(); ++output)
    if (storesIn(output, sweep))
      outputs.push_back(output);
  if (outputs.empty())
    return;
  for (ColumnContext &context : contexts)
    for (unsigned output : outputs)
      values.vector(plan.outputs[output], plan.outputSpans[output], context);
  for (size_t i = 0; i < contexts.size(); ++i) {
    ColumnContext &context = contexts[i];
    auto store = [&] {
      for (unsigned output : outputs)
        values.storeVector(output, context);
    };
    if (!exist[i]) {
      store();
      continue;
    }
    // What belongs to the row, such as addresses, goes before the branch.
    function.when(context.row.builder, exist[i], [&](CodeBuilder &inner) {
      CodeBuilder outside = context.builder;
      context.builder = inner;
      store();
      context.builder = outside;
    });
  }
}

void GpuLoops::storeScalars(RowContext &row, Value isOne) {
  SmallVector<unsigned> outputs;
  for (unsigned output = 0; output < plan.outputs.size(); ++output)
    if (!plan.hasColumns(plan.outputSpans[output]))
      outputs.push_back(output);
  if (outputs.empty())
    return;
  KernelValues &values = function.vectors();
  for (unsigned output : outputs)
    values.scalar(plan.outputs[output], plan.outputSpans[output], row);
  function.when(row.builder, isOne, [&](CodeBuilder &inner) {
    CodeBuilder outside = row.builder;
    row.builder = inner;
    for (unsigned output : outputs)
      values.storeScalar(output, row);
    row.builder = outside;
  });
}
