// The loops of GPU kernels; GpuShape.h says what each skeleton is.
#include "passes/lower/cuda/kernels/GpuEmitter.h"
#include "passes/lower/cuda/kernels/GpuLoops.h"
#include "passes/lower/kernels/LaunchShape.h"

using namespace mlir;
using namespace dtc;

// Elements

namespace {

class ElementsSkeleton : GpuLoops {
public:
  using GpuLoops::GpuLoops;

  void emit() {
    CodeBuilder &builder = function.builder;
    if (plan.rank() == 0) {
      RowContext row(builder, {});
      return storeScalars(row, function.equal(builder, function.thread, 0));
    }
    Value number = builder.add(builder.mul(function.block, builder.integer(function.threads)), function.thread);
    plan.kind == KernelKind::Flat ? emitFlat(number) : emitRows(number);
  }

private:
  void emitVector(CodeBuilder &builder, KernelValues &values, ArrayRef<Value> index, Value column) {
    RowContext row(builder, index);
    ColumnContext context(row, builder, column, {}, 0);
    storeOutputs(values, context, Value(), 0);
  }

  /// The last vector may be incomplete: its elements are computed one by one.
  void emitFlat(Value number) {
    CodeBuilder &builder = function.builder;
    Value lanes = builder.integer(shape.lanes), column = builder.mul(number, lanes);
    SmallVector<Value> index(1);
    auto single = [&](CodeBuilder &inner, Value column, ValueRange) {
      emitVector(inner, function.singles(), index, column);
      return SmallVector<Value>();
    };
    if (shape.lanes == 1)
      return function.when(builder, function.less(builder, column, function.count),
                           [&](CodeBuilder &inner) { single(inner, column, {}); });
    Value end = builder.add(column, lanes);
    Value isPartial = function.less(builder, function.count, end);
    function.when(
        builder, isPartial, [&](CodeBuilder &inner) { function.loop(inner, column, function.count, 1, {}, single); },
        [&](CodeBuilder &inner) { emitVector(inner, function.vectors(), index, column); });
  }

  void emitRows(Value number) {
    CodeBuilder &builder = function.builder;
    int64_t vectors = plan.columns() / shape.lanes, total = plan.product(plan.gridSpan()) * vectors;
    function.when(builder, function.less(builder, number, builder.integer(total)), [&](CodeBuilder &inner) {
      Division place = function.divide(inner, number, vectors, total + function.threads);
      SmallVector<Value> index = keptIndex(inner, place.quotient);
      emitVector(inner, function.vectors(), index, inner.mul(place.remainder, inner.integer(shape.lanes)));
      RowContext row(inner, index);
      storeScalars(row, function.equal(inner, place.remainder, 0));
    });
  }
};

} // namespace

// The entry point

SmallVector<gpu::GPUFuncOp> dtc::emitGpuKernel(dt::KernelOp kernel, const KernelPlan &plan, const GpuShape &shape,
                                               gpu::GPUModuleOp module) {
  SmallVector<gpu::GPUFuncOp> functions;
  for (auto [number, pass] : llvm::enumerate(shape.passes)) {
    GpuFunction function(plan, shape, pass, passFunction(kernel.getName(), number), module, kernel.getLoc());
    switch (shape.skeleton) {
    case GpuSkeleton::Elements:
      ElementsSkeleton(function, number).emit();
      break;
    case GpuSkeleton::Rows:
      emitGpuRows(function, number);
      break;
    case GpuSkeleton::Linear:
      emitGpuLinear(function, number);
      break;
    case GpuSkeleton::Columns:
      emitGpuColumns(function, number);
      break;
    }
    functions.push_back(function.op());
  }
  return functions;
}
