// Skeletons whose sums are formed by several blocks: a function leaves each block's partial results in scratch, the
// next one combines them in order.
#include "passes/lower/cuda/kernels/GpuLoops.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace dtc;

// Linear

namespace {

/// Function `pass` does sweep number `pass` after it has combined the results of the sweeps before; the one after the
/// last sweep stores what has no columns.
class LinearSkeleton : GpuLoops {
public:
  LinearSkeleton(GpuFunction &function, size_t pass)
      : GpuLoops(function, pass), isFlat(plan.kind == KernelKind::Flat), results(plan.product(plan.gridSpan())) {}

  void emit() {
    CodeBuilder &builder = function.builder;
    bool isLast = pass == plan.numSweeps;
    parts = partsOf(builder);
    Value result = isLast ? function.block : builder.integer(0), part = function.block;
    if (!isLast && !isFlat) {
      Division place = function.divide(builder, function.block, shape.parts, results * shape.parts);
      std::tie(result, part) = std::pair(place.quotient, place.remainder);
    }
    firstPartial = builder.mul(result, parts);
    partials = builder.mul(builder.integer(results), parts);
    RowContext row(builder, keptIndex(builder, result));
    for (unsigned sweep = 0; sweep < pass; ++sweep)
      for (const GpuReduction &reduction : reductionsOf(sweep))
        row.values[{reduction.result, reduction.span}] = combineParts(row.builder, reduction);
    if (isLast)
      return storeScalars(row, function.equal(row.builder, function.thread, 0));
    emitSweep(row, part);
  }

private:
  Value partsOf(CodeBuilder &builder);
  Value combineParts(CodeBuilder &builder, const GpuReduction &reduction);
  void emitSweep(RowContext &row, Value part);
  SmallVector<Value> emitVector(RowContext &row, CodeBuilder &builder, Value number, ArrayRef<GpuReduction> reductions,
                                ValueRange before);
  void emitRest(RowContext &row, Value number, Value begin, ArrayRef<GpuReduction> reductions,
                SmallVectorImpl<Value> &sums);

  const bool isFlat;
  const int64_t results;
  Value parts, firstPartial, partials;
};

} // namespace

/// As GpuShape says; for a flat kernel, computed from its count.
Value LinearSkeleton::partsOf(CodeBuilder &builder) {
  if (!isFlat)
    return builder.integer(shape.parts);
  Location loc = builder.loc;
  auto divideUp = [&](Value a, int64_t b) -> Value {
    return arith::DivUIOp::create(builder, loc, builder.add(a, builder.integer(b - 1)), builder.integer(b));
  };
  Value vectors = arith::DivUIOp::create(builder, loc, function.count, builder.integer(shape.lanes));
  Value wanted = divideUp(vectors, GpuShape::vectorsOfPart);
  wanted = arith::MinSIOp::create(builder, loc, wanted, builder.integer(GpuShape::mostParts));
  wanted = arith::MaxSIOp::create(builder, loc, wanted, divideUp(vectors, GpuShape::vectorsOfLongestPart));
  return arith::MaxSIOp::create(builder, loc, wanted, builder.integer(1));
}

/// A reduction's result, for every thread of the block.
Value LinearSkeleton::combineParts(CodeBuilder &builder, const GpuReduction &reduction) {
  Value none = reduction.identity(builder, reduction.partial);
  auto body = [&](CodeBuilder &inner, Value part, ValueRange before) -> SmallVector<Value> {
    Value address = function.partialAddress(inner, reduction, partials, inner.add(firstPartial, part));
    return {reduction.combine(inner, before.front(), inner.load(reduction.partial, address))};
  };
  Value share = function.loop(builder, function.thread, parts, function.threads, none, body).front();
  Value whole = reduction.narrow(builder, function.combineThreads(builder, reduction, share, function.threads));
  return function.vectors().rounded(builder, whole, reduction.result);
}

void LinearSkeleton::emitSweep(RowContext &row, Value part) {
  CodeBuilder &builder = row.builder;
  SmallVector<GpuReduction> reductions = reductionsOf(pass);
  SmallVector<Value> sums;
  for (const GpuReduction &reduction : reductions)
    sums.push_back(reduction.identity(builder, function.vectors().vectorType(reduction.element)));
  Value threads = builder.integer(function.threads), lanes = builder.integer(shape.lanes);
  Value number = builder.add(builder.mul(part, threads), function.thread);
  Value vectors = isFlat ? arith::DivUIOp::create(builder, builder.loc, function.count, lanes).getResult()
                         : builder.integer(plan.product(plan.reduced) / shape.lanes);
  sums = function.loop(builder, number, vectors, builder.mul(parts, threads), sums,
                       [&](CodeBuilder &inner, Value vector, ValueRange before) {
                         return emitVector(row, inner, vector, reductions, before);
                       });
  for (auto [reduction, sum] : llvm::zip_equal(reductions, sums))
    sum = reduction.combineLanes(builder, sum);
  if (isFlat && shape.lanes > 1)
    emitRest(row, number, builder.mul(vectors, lanes), reductions, sums);
  for (auto [reduction, sum] : llvm::zip_equal(reductions, sums)) {
    Value ofBlock = function.combineThreads(builder, reduction, reduction.widen(builder, sum), function.threads);
    function.when(builder, function.equal(builder, function.thread, 0),
                  [&, &reduction = reduction](CodeBuilder &inner) {
                    Value index = inner.add(firstPartial, part);
                    inner.store(ofBlock, function.partialAddress(inner, reduction, partials, index));
                  });
  }
}

/// Vector `number` of everything that is reduced to one result.
SmallVector<Value> LinearSkeleton::emitVector(RowContext &whole, CodeBuilder &builder, Value number,
                                              ArrayRef<GpuReduction> reductions, ValueRange before) {
  std::optional<RowContext> own;
  if (!isFlat) {
    Span columns = Span(1) << (plan.rank() - 1);
    Division place = function.divide(builder, number, plan.columns() / shape.lanes,
                                     plan.product(plan.reduced) / shape.lanes + shape.parts * function.threads);
    SmallVector<Value> index = whole.index;
    function.decompose(builder, place.quotient, plan.reduced & ~columns, index);
    own.emplace(builder, index);
    number = place.remainder;
  }
  RowContext &row = own ? *own : whole;
  ColumnContext context(row, builder, builder.mul(number, builder.integer(shape.lanes)), {}, pass);
  SmallVector<Value> after;
  for (auto [reduction, sum] : llvm::zip_equal(reductions, before))
    after.push_back(
        reduction.combine(builder, function.vectors().vector(reduction.operand, plan.fullSpan(), context), sum));
  storeOutputs(function.vectors(), context, Value(), pass);
  return after;
}

/// The elements that fill no vector, one for each of the first threads of all blocks.
void LinearSkeleton::emitRest(RowContext &whole, Value number, Value begin, ArrayRef<GpuReduction> reductions,
                              SmallVectorImpl<Value> &sums) {
  RowContext row(whole.builder, whole.index); // its vectors differ
  row.values = whole.values;
  Value column = row.builder.add(begin, number);
  Value exists = function.less(row.builder, column, function.count);
  column = function.choose(row.builder, exists, column, row.builder.integer(0));
  ColumnContext context(row, row.builder, column, {}, pass);
  for (auto [reduction, sum] : llvm::zip_equal(reductions, sums)) {
    Value term = function.singles().vector(reduction.operand, plan.fullSpan(), context);
    term = reduction.combineLanes(row.builder, term);
    term = function.choose(row.builder, exists, term, reduction.identity(row.builder, term.getType()));
    sum = reduction.combine(row.builder, sum, term);
  }
  storeOutputs(function.singles(), context, exists, pass);
}

// Columns

namespace {

class ColumnsSkeleton : GpuLoops {
public:
  ColumnsSkeleton(GpuFunction &function, size_t pass)
      : GpuLoops(function, pass), rows(plan.product(plan.reduced)), results(plan.product(plan.gridSpan())) {
    for (dt::ReductionOpInterface reduce : plan.reductions)
      reductions.emplace_back(plan, reduce);
  }

  void emit() { pass == 0 ? emitSums() : emitCombination(); }

private:
  static constexpr int64_t width = GpuShape::columnVectors, height = GpuShape::rowsAtOnce;

  void emitSums();
  SmallVector<Value> sumRows(Value part, Value y, Value column, ArrayRef<Value> kept);
  SmallVector<Value> addRows(CodeBuilder &builder, Value first, int64_t count, Value column, ArrayRef<Value> kept,
                             ValueRange before);
  void emitCombination();
  void finish(CodeBuilder &builder, ArrayRef<Value> kept, Value column, ArrayRef<Value> sums);
  /// The address of a column's partial result.
  Value partialOf(CodeBuilder &builder, const GpuReduction &reduction, Value result, Value part, Value column) {
    Value row = builder.add(builder.mul(result, builder.integer(shape.parts)), part);
    Value total = builder.integer(results * shape.parts * plan.columns());
    return function.partialAddress(builder, reduction, total,
                                   builder.add(builder.mul(row, builder.integer(plan.columns())), column));
  }
  Value limit(CodeBuilder &builder, Value column) {
    Value exists = function.less(builder, column, builder.integer(plan.columns()));
    return function.choose(builder, exists, column, builder.integer(0));
  }

  const int64_t rows, results;
  SmallVector<GpuReduction> reductions;
};

} // namespace

/// The sums of one part of the rows: by each thread, then over the threads of a column.
void ColumnsSkeleton::emitSums() {
  CodeBuilder &builder = function.builder;
  int64_t lanes = shape.lanes, blocks = llvm::divideCeil(plan.columns(), width * lanes);
  Division tile = function.divide(builder, function.thread, width, function.threads);
  Division across = function.divide(builder, function.block, blocks, blocks * shape.parts * results);
  Division down = function.divide(builder, across.quotient, shape.parts, shape.parts * results);
  Value part = down.remainder, result = down.quotient;
  SmallVector<Value> kept = keptIndex(builder, result);
  Value first = builder.mul(across.remainder, builder.integer(width * lanes));
  // Threads beyond the last column add up the first one, and the sum is not used.
  Value column = limit(builder, builder.add(first, builder.mul(tile.remainder, builder.integer(lanes))));
  SmallVector<Value> sums = sumRows(part, tile.quotient, column, kept), memory;
  for (auto [reduction, sum] : llvm::zip_equal(reductions, sums)) {
    memory.push_back(function.workgroupMemory(reduction.element, function.threads * lanes));
    for (int64_t lane = 0; lane < lanes; ++lane) {
      Value at = builder.add(builder.mul(tile.quotient, builder.integer(lanes)), builder.integer(lane));
      at = builder.add(builder.mul(at, builder.integer(width)), tile.remainder);
      function.storeShared(builder, vector::ExtractOp::create(builder, builder.loc, sum, lane), memory.back(), at);
    }
  }
  function.barrier(builder);
  // From here on there is one thread per column: number `lane * width + x`.
  column = builder.add(first, builder.add(builder.mul(tile.remainder, builder.integer(lanes)), tile.quotient));
  Value exists = arith::AndIOp::create(builder, builder.loc,
                                       function.less(builder, function.thread, builder.integer(width * lanes)),
                                       function.less(builder, column, builder.integer(plan.columns())));
  function.when(builder, exists, [&](CodeBuilder &inner) {
    SmallVector<Value> totals;
    for (auto [reduction, shared] : llvm::zip_equal(reductions, memory)) {
      Value total;
      for (int64_t y = 0; y < height; ++y) {
        Value at = inner.add(function.thread, inner.integer(y * lanes * width));
        Value term = reduction.widen(inner, function.loadShared(inner, shared, at));
        total = total ? reduction.combine(inner, total, term) : term;
      }
      totals.push_back(total);
    }
    if (shape.parts == 1)
      return finish(inner, kept, column, totals);
    for (auto [reduction, total] : llvm::zip_equal(reductions, totals))
      inner.store(total, partialOf(inner, reduction, result, part, column));
  });
}

/// The sum over what the thread at height `y` adds up: every `height`-th row of its part.
SmallVector<Value> ColumnsSkeleton::sumRows(Value part, Value y, Value column, ArrayRef<Value> kept) {
  CodeBuilder &builder = function.builder;
  Location loc = builder.loc;
  int64_t rowsOfPart = llvm::divideCeil(rows, shape.parts), round = shape.rowsOfRound * height;
  Value begin = builder.mul(part, builder.integer(rowsOfPart));
  Value end =
      arith::MinSIOp::create(builder, loc, builder.add(begin, builder.integer(rowsOfPart)), builder.integer(rows));
  Value from = builder.add(begin, y);
  Value left = arith::SubIOp::create(builder, loc, builder.add(end, builder.integer(height - 1)), from);
  left = arith::MaxSIOp::create(builder, loc, left, builder.integer(0));
  Value rounds = arith::DivUIOp::create(builder, loc, left, builder.integer(round));
  Value roundsEnd = builder.add(from, builder.mul(rounds, builder.integer(round)));
  SmallVector<Value> sums;
  for (const GpuReduction &reduction : reductions)
    sums.push_back(reduction.identity(builder, function.vectors().vectorType(reduction.element)));
  sums = function.loop(builder, from, roundsEnd, round, sums, [&](CodeBuilder &inner, Value row, ValueRange before) {
    return addRows(inner, row, shape.rowsOfRound, column, kept, before);
  });
  return function.loop(builder, roundsEnd, end, height, sums, [&](CodeBuilder &inner, Value row, ValueRange before) {
    return addRows(inner, row, 1, column, kept, before);
  });
}

SmallVector<Value> ColumnsSkeleton::addRows(CodeBuilder &builder, Value first, int64_t count, Value column,
                                            ArrayRef<Value> kept, ValueRange before) {
  SmallVector<RowContext> contexts;
  for (int64_t i = 0; i < count; ++i) {
    SmallVector<Value> index(kept);
    function.decompose(builder, builder.add(first, builder.integer(i * height)), plan.reduced, index);
    contexts.emplace_back(builder, index);
  }
  SmallVector<ColumnContext> elements;
  for (RowContext &row : contexts)
    elements.emplace_back(row, builder, column, Value(), 0);
  SmallVector<Value> after;
  for (auto [reduction, sum] : llvm::zip_equal(reductions, before)) {
    SmallVector<Value> terms;
    for (ColumnContext &context : elements)
      terms.push_back(function.vectors().vector(reduction.operand, plan.fullSpan(), context));
    after.push_back(reduction.combine(builder, reduction.combine(builder, std::move(terms)), sum));
  }
  return after;
}

/// Combines the parts: each thread takes every `height`-th.
void ColumnsSkeleton::emitCombination() {
  CodeBuilder &builder = function.builder;
  int64_t blocks = llvm::divideCeil(plan.columns(), width);
  Division tile = function.divide(builder, function.thread, width, function.threads);
  Division across = function.divide(builder, function.block, blocks, blocks * results);
  Value result = across.quotient;
  Value column = builder.add(builder.mul(across.remainder, builder.integer(width)), tile.remainder);
  Value read = limit(builder, column);
  SmallVector<Value> memory;
  for (const GpuReduction &reduction : reductions) {
    Value none = reduction.identity(builder, reduction.partial);
    auto body = [&](CodeBuilder &inner, Value part, ValueRange before) -> SmallVector<Value> {
      Value term = inner.load(reduction.partial, partialOf(inner, reduction, result, part, read));
      return {reduction.combine(inner, before.front(), term)};
    };
    Value share = function.loop(builder, tile.quotient, builder.integer(shape.parts), height, none, body).front();
    memory.push_back(function.workgroupMemory(reduction.partial, function.threads));
    function.storeShared(builder, share, memory.back(), function.thread);
  }
  function.barrier(builder);
  Value exists = arith::AndIOp::create(builder, builder.loc, function.equal(builder, tile.quotient, 0),
                                       function.less(builder, column, builder.integer(plan.columns())));
  SmallVector<Value> kept = keptIndex(builder, result);
  function.when(builder, exists, [&](CodeBuilder &inner) {
    SmallVector<Value> totals;
    for (auto [reduction, shared] : llvm::zip_equal(reductions, memory)) {
      Value total;
      for (int64_t y = 0; y < height; ++y) {
        Value at = inner.add(function.thread, inner.integer(y * width));
        Value term = function.loadShared(inner, shared, at);
        total = total ? reduction.combine(inner, total, term) : term;
      }
      totals.push_back(total);
    }
    finish(inner, kept, column, totals);
  });
}

/// The outputs of one column.
void ColumnsSkeleton::finish(CodeBuilder &builder, ArrayRef<Value> kept, Value column, ArrayRef<Value> sums) {
  KernelValues &values = function.singles();
  RowContext row(builder, kept);
  ColumnContext context(row, builder, column, {}, /*sweep=*/1); // after the sweep that reduces
  for (auto [reduction, sum] : llvm::zip_equal(reductions, sums))
    context.values[{reduction.result, reduction.span}] =
        builder.splat(values.rounded(builder, reduction.narrow(builder, sum), reduction.result), 1);
  for (unsigned output = 0; output < plan.outputs.size(); ++output)
    values.vector(plan.outputs[output], plan.outputSpans[output], context);
  for (unsigned output = 0; output < plan.outputs.size(); ++output)
    values.storeVector(output, context);
}

void dtc::emitGpuLinear(GpuFunction &function, size_t pass) { LinearSkeleton(function, pass).emit(); }

void dtc::emitGpuColumns(GpuFunction &function, size_t pass) { ColumnsSkeleton(function, pass).emit(); }
