// The loops of a kernel: rows, sweeps over the columns of a row.
#include "passes/lower/cpu/KernelEmitter.h"
#include "passes/lower/cpu/Accumulators.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace dtc;

namespace {

using EmitRow = llvm::function_ref<void(CodeBuilder &, Value)>;
/// Of vectors that begin at these columns.
using EmitColumns = llvm::function_ref<void(CodeBuilder &, ArrayRef<Value> columns, Value mask)>;

/// Rows of a Columns kernel that are added up in f32 before the sum joins the f64 accumulator: a tree of three levels,
/// and eight streams for the prefetcher.
constexpr int64_t rowGroup = 8;

/// Vectors of a row that are added up in f32 before the sum joins an f64 accumulator: conversions would take longer
/// than what is summed.
constexpr int64_t columnGroup = 8;

/// Sweeps over fewer columns are not worth the code of groups; nor do they wait for memory, as processors look as far
/// ahead as the next row.
constexpr int64_t longSweep = 16384;

/// Sums of more terms than this for each lane's chain go to f64, so that losses agree whatever the cut.
constexpr int64_t longestSingleSum = 2048;

/// How many vectors ahead a line of a stream is asked for. Kernels compute long enough with each line that processors
/// themselves do not look as far ahead as memory takes.
constexpr int64_t vectorsAhead = 16;

class KernelEmitter {
public:
  KernelEmitter(const KernelPlan &plan, Block *entry, unsigned lanes);
  void emit();

private:
  // Loops. Each calls back with a builder that stands in the loop's body.
  void forEach(CodeBuilder &builder, Value from, Value to, int64_t step, EmitRow body);
  void sweepVectors(CodeBuilder &builder, Value from, Value to, int64_t group, EmitColumns body);
  void sweepColumns(CodeBuilder &builder, Value from, Value to, int64_t group, EmitColumns body);
  void sweepStaticColumns(CodeBuilder &builder, int64_t group, EmitColumns body);
  SmallVector<Value> decompose(CodeBuilder &builder, Value number, Span dims);

  // Kinds.
  int64_t groupFor(ArrayRef<Accumulator> accumulators) const;
  void emitSweeps(CodeBuilder builder, ArrayRef<Value> index, Value from, Value to);
  void emitSweep(RowContext &row, unsigned sweep, Value from, Value to);
  bool storesIn(unsigned output, unsigned sweep) const {
    return plan.hasColumns(plan.outputSpans[output]) && plan.outputSweep[output] == sweep;
  }
  void prefetchNextRow(ColumnContext &context);
  void emitColumnBlock(CodeBuilder builder, Value number);
  void emitRowGroup(CodeBuilder builder, Value firstRow, int64_t rows, ArrayRef<Value> kept, Value from, Value to,
                    ArrayRef<Accumulator> accumulators);
  void emitTotal(CodeBuilder builder, Value number);

  const KernelPlan &plan;
  const unsigned lanes;
  CodeBuilder builder; ///< stands after the values of the whole call
  Value begin, end, flatCount;
  std::optional<KernelValues> values;
  std::optional<Accumulators> reductions;
};

} // namespace

KernelEmitter::KernelEmitter(const KernelPlan &plan, Block *entry, unsigned lanes)
    : plan(plan), lanes(lanes), builder(entry->getTerminator(), entry->getTerminator()->getLoc()) {
  Type pointer = LLVM::LLVMPointerType::get(builder.getContext());
  begin = entry->getArgument(2);
  end = entry->getArgument(3);
  SmallVector<Value> buffers;
  for (size_t i = 0; i < plan.inputs.size() + plan.outputs.size(); ++i) {
    Value address = LLVM::GEPOp::create(builder, builder.loc, pointer, pointer, entry->getArgument(0),
                                        ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(i)});
    buffers.push_back(LLVM::LoadOp::create(builder, builder.loc, pointer, address, 8));
  }
  auto launchScalar = [scalars = entry->getArgument(1)](CodeBuilder &builder, unsigned index) -> Value {
    Value pointer = LLVM::GEPOp::create(builder, builder.loc, scalars.getType(), builder.getI64Type(), scalars,
                                        ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(index)});
    return LLVM::LoadOp::create(builder, builder.loc, builder.getI64Type(), pointer, 8);
  };
  if (plan.kind == KernelKind::Flat)
    flatCount = launchScalar(builder, 0);
  // Values of the whole call stand before this marker, rows after it.
  Operation *marker = builder.integer(0).getDefiningOp();
  KernelEnvironment environment{std::move(buffers), launchScalar, lanes};
  environment.vectorsAhead = vectorsAhead;
  values.emplace(plan, CodeBuilder(marker, builder.loc), std::move(environment));
  reductions.emplace(plan, entry, *values);
}

void KernelEmitter::emit() {
  switch (plan.kind) {
  case KernelKind::Flat: {
    bool whole = !plan.reductions.empty() || plan.rank() == 0;
    return emitSweeps(builder, SmallVector<Value>(plan.rank()), whole ? builder.integer(0) : begin,
                      whole ? flatCount : end);
  }
  case KernelKind::Rows:
    return forEach(builder, begin, end, 1, [&](CodeBuilder &inner, Value row) {
      emitSweeps(inner, decompose(inner, row, plan.gridSpan()), {}, {});
    });
  case KernelKind::Columns:
    return forEach(builder, begin, end, 1, [&](CodeBuilder &inner, Value block) { emitColumnBlock(inner, block); });
  case KernelKind::Total:
    return forEach(builder, begin, end, 1, [&](CodeBuilder &inner, Value number) { emitTotal(inner, number); });
  }
}

// Loops

void KernelEmitter::forEach(CodeBuilder &builder, Value from, Value to, int64_t step, EmitRow body) {
  auto loop = scf::ForOp::create(builder, builder.loc, from, to, builder.integer(step));
  builder.setInsertionPoint(loop); // what the body finds to be the same in every iteration is computed before the loop
  CodeBuilder inner(loop.getBody()->getTerminator(), builder.loc);
  body(inner, loop.getInductionVar());
  builder.setInsertionPointAfter(loop);
}

/// Columns [from, to), as many as some groups of vectors have.
void KernelEmitter::sweepVectors(CodeBuilder &builder, Value from, Value to, int64_t group, EmitColumns body) {
  forEach(builder, from, to, group * lanes, [&](CodeBuilder &inner, Value column) {
    SmallVector<Value> columns{column};
    while (static_cast<int64_t>(columns.size()) < group)
      columns.push_back(inner.add(column, inner.integer(columns.size() * lanes)));
    body(inner, columns, {});
  });
}

/// Columns [from, to) in groups of vectors, then in vectors, then the rest under a mask.
void KernelEmitter::sweepColumns(CodeBuilder &builder, Value from, Value to, int64_t group, EmitColumns body) {
  Location loc = builder.loc;
  Value count = arith::SubIOp::create(builder, loc, to, from);
  Value whole = arith::AndIOp::create(builder, loc, count, builder.integer(-static_cast<int64_t>(lanes)));
  Value wholeEnd = builder.add(from, whole);
  Value groupsEnd = from;
  if (group > 1) {
    Value size = builder.integer(group * lanes);
    Value groups = arith::DivUIOp::create(builder, loc, count, size);
    groupsEnd = builder.add(from, builder.mul(groups, size));
    sweepVectors(builder, from, groupsEnd, group, body);
  }
  sweepVectors(builder, groupsEnd, wholeEnd, 1, body);
  if (plan.kind == KernelKind::Columns && plan.columns() % lanes == 0)
    return;
  Value rest = arith::SubIOp::create(builder, loc, to, wholeEnd);
  Value some = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sgt, rest, builder.integer(0));
  auto branch = scf::IfOp::create(builder, loc, some, /*withElseRegion=*/false);
  CodeBuilder inner(branch.thenBlock()->getTerminator(), loc);
  Value narrow = arith::TruncIOp::create(inner, loc, inner.getI32Type(), rest);
  Value mask = arith::CmpIOp::create(inner, loc, arith::CmpIPredicate::slt, laneNumbers(inner, 1, lanes),
                                     inner.splat(narrow, lanes));
  builder.setInsertionPoint(branch);
  body(inner, wholeEnd, mask);
  builder.setInsertionPointAfter(branch);
}

/// All columns of a row, whose number is known.
void KernelEmitter::sweepStaticColumns(CodeBuilder &builder, int64_t group, EmitColumns body) {
  int64_t rest = plan.columns() % lanes, whole = plan.columns() - rest;
  int64_t grouped = group > 1 ? whole / (group * lanes) * group * lanes : 0;
  if (grouped > 0)
    sweepVectors(builder, builder.integer(0), builder.integer(grouped), group, body);
  if (whole > grouped)
    sweepVectors(builder, builder.integer(grouped), builder.integer(whole), 1, body);
  if (rest == 0)
    return;
  SmallVector<bool> exists(lanes);
  std::fill_n(exists.begin(), rest, true);
  body(builder, builder.integer(whole), builder.constant(builder.getBoolVectorAttr(exists)));
}

/// The indices along `dims` of element `number` of their row-major grid; null for other dimensions.
SmallVector<Value> KernelEmitter::decompose(CodeBuilder &builder, Value number, Span dims) {
  SmallVector<Value> index(plan.rank());
  SmallVector<unsigned> order = dimsOf(dims);
  for (unsigned dim : llvm::reverse(order)) {
    if (dim == order.front()) {
      index[dim] = number;
      break;
    }
    Value size = builder.integer(plan.sizes[dim]);
    index[dim] = arith::RemUIOp::create(builder, builder.loc, number, size);
    number = arith::DivUIOp::create(builder, builder.loc, number, size);
  }
  return index;
}

// Kinds

/// How many vectors a sweep takes at a time.
int64_t KernelEmitter::groupFor(ArrayRef<Accumulator> accumulators) const {
  bool gains = llvm::any_of(accumulators, [](const Accumulator &a) { return a.isWide() || a.poison; });
  return gains && plan.columns() >= longSweep ? columnGroup : 1;
}

/// The sweeps of one row: columns [from, to), or all of them when these are null.
void KernelEmitter::emitSweeps(CodeBuilder builder, ArrayRef<Value> index, Value from, Value to) {
  RowContext row(builder, index);
  for (unsigned sweep = 0; sweep < plan.numSweeps; ++sweep)
    emitSweep(row, sweep, from, to);
  for (unsigned output = 0; output < plan.outputs.size(); ++output)
    if (!plan.hasColumns(plan.outputSpans[output]))
      values->storeScalar(output, row);
}

void KernelEmitter::emitSweep(RowContext &row, unsigned sweep, Value from, Value to) {
  bool wide = plan.kind == KernelKind::Flat || plan.columns() > longestSingleSum;
  SmallVector<Accumulator> accumulators;
  for (auto [reduce, at] : llvm::zip(plan.reductions, plan.reductionSweep))
    if (at == sweep)
      accumulators.push_back(reductions->make(row.builder, reduce, wide));
  auto body = [&](CodeBuilder &inner, ArrayRef<Value> columns, Value mask) {
    SmallVector<ColumnContext> contexts;
    for (Value column : columns)
      contexts.emplace_back(row, inner, column, mask, sweep);
    for (const Accumulator &accumulator : accumulators)
      reductions->accumulate(contexts, accumulator);
    // Everything is read before anything is written: an output may lie on an input.
    for (ColumnContext &context : contexts)
      for (unsigned output = 0; output < plan.outputs.size(); ++output)
        if (storesIn(output, sweep))
          values->vector(plan.outputs[output], plan.outputSpans[output], context);
    for (ColumnContext &context : contexts) {
      for (unsigned output = 0; output < plan.outputs.size(); ++output)
        if (storesIn(output, sweep))
          values->storeVector(output, context);
      prefetchNextRow(context);
    }
  };
  if (from)
    sweepColumns(row.builder, from, to, groupFor(accumulators), body);
  else
    sweepStaticColumns(row.builder, groupFor(accumulators), body);
  for (const Accumulator &accumulator : accumulators)
    row.values[{accumulator.result, accumulator.span}] = reductions->finish(row.builder, accumulator);
}

/// A long row that is swept several times comes from memory in the first sweep, which waits for it, and from the cache
/// in the others, which compute: so the last one asks for what the next row's first sweep will read.
void KernelEmitter::prefetchNextRow(ColumnContext &context) {
  bool isLong = plan.kind == KernelKind::Rows && plan.numSweeps > 1 && plan.columns() >= longSweep;
  if (!isLong || context.sweep + 1 != plan.numSweeps || context.mask)
    return;
  for (auto [instance, sweep] : plan.lastLoad)
    if (instance.second == plan.fullSpan())
      values->prefetchNextRow(instance.first, context);
}

/// One block of columns of a reduction over other dimensions: accumulators for the block, all rows, what follows.
void KernelEmitter::emitColumnBlock(CodeBuilder builder, Value number) {
  Location loc = builder.loc;
  Value blocks = builder.integer((plan.columns() + columnBlock - 1) / columnBlock);
  Value block = arith::RemUIOp::create(builder, loc, number, blocks);
  SmallVector<Value> kept = decompose(builder, arith::DivUIOp::create(builder, loc, number, blocks), plan.gridSpan());
  Value from = builder.mul(block, builder.integer(columnBlock));
  Value to = arith::MinSIOp::create(builder, loc, builder.add(from, builder.integer(columnBlock)),
                                    builder.integer(plan.columns()));
  SmallVector<Accumulator> accumulators;
  for (dt::ReductionOpInterface reduce : plan.reductions)
    accumulators.push_back(reductions->make(builder, reduce, /*wide=*/true, columnBlock / lanes));
  int64_t rows = plan.product(plan.reduced), grouped = rows / rowGroup * rowGroup;
  for (auto [first, last, step] : {std::tuple(int64_t(0), grouped, rowGroup), std::tuple(grouped, rows, int64_t(1))})
    if (first < last)
      forEach(builder, builder.integer(first), builder.integer(last), step,
              [&](CodeBuilder &inner, Value row) { emitRowGroup(inner, row, step, kept, from, to, accumulators); });
  RowContext row(builder, kept);
  sweepColumns(row.builder, from, to, 1, [&](CodeBuilder &inner, ArrayRef<Value> columns, Value mask) {
    Value column = columns.front();
    ColumnContext context(row, inner, column, mask, 1);
    for (const Accumulator &accumulator : accumulators) {
      Value offset = arith::SubIOp::create(inner, inner.loc, column, from);
      context.values[{accumulator.result, accumulator.span}] =
          reductions->narrow(inner, accumulator, reductions->total(inner, accumulator, offset));
    }
    for (unsigned output = 0; output < plan.outputs.size(); ++output)
      values->vector(plan.outputs[output], plan.outputSpans[output], context);
    for (unsigned output = 0; output < plan.outputs.size(); ++output)
      values->storeVector(output, context);
  });
}

/// The elements that `rows` rows from `firstRow` on have in a block of columns, added to the accumulators.
void KernelEmitter::emitRowGroup(CodeBuilder builder, Value firstRow, int64_t rows, ArrayRef<Value> kept, Value from,
                                 Value to, ArrayRef<Accumulator> accumulators) {
  SmallVector<RowContext> contexts;
  for (int64_t i = 0; i < rows; ++i) {
    SmallVector<Value> index = decompose(builder, builder.add(firstRow, builder.integer(i)), plan.reduced);
    for (auto [dim, outer] : llvm::enumerate(kept))
      if (outer)
        index[dim] = outer;
    contexts.emplace_back(builder, index);
  }
  sweepColumns(builder, from, to, 1, [&](CodeBuilder &inner, ArrayRef<Value> columns, Value mask) {
    Value column = columns.front();
    SmallVector<ColumnContext> elements;
    for (RowContext &row : contexts) {
      row.builder.setInsertionPoint(inner.getBlock()->getParentOp());
      elements.emplace_back(row, inner, column, mask, 0);
    }
    for (const Accumulator &accumulator : accumulators) {
      SmallVector<Value> terms;
      for (ColumnContext &context : elements)
        terms.push_back(values->vector(accumulator.operand, plan.fullSpan(), context));
      Value offset = arith::SubIOp::create(inner, inner.loc, column, from);
      reductions->accumulate(inner, accumulator, std::move(terms), offset);
    }
  });
}

/// A reduction over the columns and further dimensions, for one element of its result.
void KernelEmitter::emitTotal(CodeBuilder builder, Value number) {
  SmallVector<Value> kept = decompose(builder, number, plan.gridSpan());
  SmallVector<Accumulator> accumulators;
  for (dt::ReductionOpInterface reduce : plan.reductions)
    accumulators.push_back(reductions->make(builder, reduce, /*wide=*/true));
  Span rows = plan.reduced & ~(Span(1) << (plan.rank() - 1));
  forEach(builder, builder.integer(0), builder.integer(plan.product(rows)), 1, [&](CodeBuilder &inner, Value number) {
    SmallVector<Value> index = decompose(inner, number, rows);
    for (auto [dim, outer] : llvm::enumerate(kept))
      if (outer)
        index[dim] = outer;
    RowContext row(inner, index);
    auto body = [&](CodeBuilder &innermost, ArrayRef<Value> columns, Value mask) {
      SmallVector<ColumnContext> contexts;
      for (Value column : columns)
        contexts.emplace_back(row, innermost, column, mask, 0);
      for (const Accumulator &accumulator : accumulators)
        reductions->accumulate(contexts, accumulator);
    };
    sweepStaticColumns(row.builder, groupFor(accumulators), body);
  });
  RowContext row(builder, kept);
  for (const Accumulator &accumulator : accumulators)
    row.values[{accumulator.result, accumulator.span}] = reductions->finish(row.builder, accumulator);
  for (unsigned output = 0; output < plan.outputs.size(); ++output)
    values->storeScalar(output, row);
}

LLVM::LLVMFuncOp dtc::emitKernel(dt::KernelOp kernel, const KernelPlan &plan, ModuleOp module, unsigned lanes) {
  MLIRContext *context = module.getContext();
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  Type pointer = LLVM::LLVMPointerType::get(context), integer = builder.getI64Type();
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(context), {pointer, pointer, integer, integer});
  auto function = LLVM::LLVMFuncOp::create(builder, kernel.getLoc(), kernel.getName(), type);
  Block *entry = function.addEntryBlock(builder);
  builder.setInsertionPointToEnd(entry);
  LLVM::ReturnOp::create(builder, kernel.getLoc(), ValueRange());
  KernelEmitter(plan, entry, lanes).emit();
  return function;
}
