// The loops of GPU kernels; GpuShape.h says what each skeleton is.
#include "passes/lower/cuda/GpuEmitter.h"
#include "passes/lower/LaunchShape.h"
#include "passes/lower/cuda/GpuLoops.h"

using namespace mlir;
using namespace dtc;

// Elements

namespace {

/// Vectors that a thread asks for before it waits for one, where a loop goes over many.
constexpr int64_t unrolled = 4;

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

  /// The last vector may be cut short by the end: its elements are done one by one.
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

// Rows

class RowsSkeleton : GpuLoops {
public:
  RowsSkeleton(GpuFunction &function, size_t pass)
      : GpuLoops(function, pass), group(shape.rowThreads), vectors(plan.columns() / shape.lanes) {}

  void emit() {
    CodeBuilder &builder = function.builder;
    int64_t rows = plan.product(plan.gridSpan()), rowsOfBlock = function.threads / group;
    Division place = function.divide(builder, function.thread, group, function.threads);
    member = rowsOfBlock == 1 ? function.thread : place.remainder;
    Value number = function.block;
    // Threads beyond the last row do the last one again and store nothing: all of a warp take part in its shuffles.
    if (rowsOfBlock > 1) {
      number = builder.add(builder.mul(number, builder.integer(rowsOfBlock)), place.quotient);
      if (rows % rowsOfBlock != 0) {
        rowExists = function.less(builder, number, builder.integer(rows));
        number = function.choose(builder, rowExists, number, builder.integer(rows - 1));
      }
    }
    SmallVector<Value> index = keptIndex(builder, number);
    RowContext row(builder, index);
    shape.heldVectors > 0 ? emitHeld(row) : emitRead(row);
    Value isFirst = function.equal(builder, member, 0);
    storeScalars(row, rowExists ? both(rowExists, isFirst) : isFirst);
  }

private:
  Value both(Value a, Value b) { return arith::AndIOp::create(function.builder, function.builder.loc, a, b); }
  void addShare(RowContext &row, int64_t begin, SmallVectorImpl<ColumnContext> &contexts,
                SmallVectorImpl<Value> &exist);
  SmallVector<Value> termsOf(Contexts contexts, ArrayRef<Value> exist, const GpuReduction &reduction);
  void finish(RowContext &row, const GpuReduction &reduction, CodeBuilder &builder, SmallVector<Value> terms);
  void emitHeld(RowContext &row);
  void emitRead(RowContext &row);

  const int64_t group, vectors;
  Value member;    ///< of the group
  Value rowExists; ///< null: every row does
};

} // namespace

/// This thread's vectors of a row from number `begin` on. One beyond the end is the row's first, which counts for
/// nothing.
void RowsSkeleton::addShare(RowContext &row, int64_t begin, SmallVectorImpl<ColumnContext> &contexts,
                            SmallVectorImpl<Value> &exist) {
  CodeBuilder &builder = row.builder;
  for (; begin < vectors; begin += group) {
    Value number = builder.add(member, builder.integer(begin)), exists;
    if (begin + group > vectors) {
      exists = function.less(builder, number, builder.integer(vectors));
      number = function.choose(builder, exists, number, builder.integer(0));
    }
    contexts.emplace_back(row, builder, builder.mul(number, builder.integer(shape.lanes)), Value(), 0);
    exist.push_back(exists);
  }
}

/// The terms of a reduction that these vectors hold.
SmallVector<Value> RowsSkeleton::termsOf(Contexts contexts, ArrayRef<Value> exist, const GpuReduction &reduction) {
  SmallVector<Value> terms;
  for (ColumnContext &context : contexts)
    terms.push_back(function.vectors().vector(reduction.operand, plan.fullSpan(), context));
  for (auto [term, context, exists] : llvm::zip_equal(terms, contexts, exist))
    if (exists)
      term = function.choose(context.builder, exists, term, reduction.identity(context.builder, term.getType()));
  return terms;
}

void RowsSkeleton::finish(RowContext &row, const GpuReduction &reduction, CodeBuilder &builder,
                          SmallVector<Value> terms) {
  Value value = reduction.combineLanes(builder, reduction.combine(builder, std::move(terms)));
  Value whole = function.combineThreads(builder, reduction, value, group);
  row.values[{reduction.result, reduction.span}] = function.vectors().rounded(builder, whole, reduction.result);
}

/// The vectors stay what they are from sweep to sweep, with all that was computed of them.
void RowsSkeleton::emitHeld(RowContext &row) {
  SmallVector<ColumnContext> contexts;
  SmallVector<Value> exist, stored;
  addShare(row, 0, contexts, exist);
  for (Value exists : exist)
    stored.push_back(exists && rowExists ? both(exists, rowExists) : exists ? exists : rowExists);
  for (unsigned sweep = 0; sweep < plan.numSweeps; ++sweep) {
    for (ColumnContext &context : contexts)
      context.sweep = sweep;
    for (const GpuReduction &reduction : reductionsOf(sweep))
      finish(row, reduction, row.builder, termsOf(contexts, exist, reduction));
    // Builders of one block all stand before its end; branches come in the order in which they are made.
    storeOutputs(function.vectors(), contexts, stored, sweep);
  }
}

/// Whole rounds of the block in a loop, the rest after it. The row is the block's alone and exists.
void RowsSkeleton::emitRead(RowContext &row) {
  KernelValues &values = function.vectors();
  CodeBuilder &builder = row.builder;
  int64_t round = unrolled * group, whole = vectors / round * round;
  for (unsigned sweep = 0; sweep < plan.numSweeps; ++sweep) {
    SmallVector<GpuReduction> reductions = reductionsOf(sweep);
    SmallVector<Value> sums;
    for (const GpuReduction &reduction : reductions)
      sums.push_back(reduction.identity(builder, values.vectorType(reduction.element)));
    auto body = [&](CodeBuilder &inner, Value first, ValueRange before) {
      SmallVector<ColumnContext> contexts;
      SmallVector<Value> exist(unrolled), after;
      for (int64_t i = 0; i < unrolled; ++i) {
        Value number = inner.add(inner.add(first, member), inner.integer(i * group));
        contexts.emplace_back(row, inner, inner.mul(number, inner.integer(shape.lanes)), Value(), sweep);
      }
      for (auto [reduction, sum] : llvm::zip_equal(reductions, before)) {
        Value terms = reduction.combine(inner, termsOf(contexts, exist, reduction));
        after.push_back(reduction.combine(inner, terms, sum));
      }
      storeOutputs(values, contexts, exist, sweep);
      return after;
    };
    sums = function.loop(builder, builder.integer(0), builder.integer(whole), round, sums, body);
    SmallVector<ColumnContext> contexts;
    SmallVector<Value> exist;
    addShare(row, whole, contexts, exist);
    for (ColumnContext &context : contexts)
      context.sweep = sweep;
    SmallVector<SmallVector<Value>> terms;
    for (auto [reduction, sum] : llvm::zip_equal(reductions, sums)) {
      terms.push_back(termsOf(contexts, exist, reduction));
      terms.back().push_back(sum);
    }
    storeOutputs(values, contexts, exist, sweep);
    for (auto [reduction, each] : llvm::zip_equal(reductions, terms))
      finish(row, reduction, builder, each);
  }
}

// The way in

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
      RowsSkeleton(function, number).emit();
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
