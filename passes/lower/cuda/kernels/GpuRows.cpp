// Rows: reductions over the columns, of rows that a block can hold, or rereads for each sweep.
#include "passes/lower/cuda/GpuModule.h"
#include "passes/lower/cuda/kernels/GpuLoops.h"

#include "dialect/IR/OnlineSums.h"

#include "mlir/Dialect/Math/IR/Math.h"

#include <limits>

using namespace mlir;
using namespace dtc;

namespace {

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
    // Threads beyond the last row compute the last one again and store nothing: all threads of a warp take part in its
    // shuffles.
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
  void finish(RowContext &row, const GpuReduction &reduction, CodeBuilder &builder, Value value);
  void emitHeld(RowContext &row);

  /// A reduction that a sweep forms; for an online sum, also where among the sweep's reductions the maximum is to which
  /// it is relative.
  struct Formed {
    GpuReduction reduction;
    std::optional<size_t> maximum;
    Value base;            ///< the maximum as the terms read it
    bool isScalar = false; ///< a maximum that sums are relative to: one for all lanes of a thread
  };
  SmallVector<dt::OnlineSum> onlineSumsOf(unsigned sweep) const;
  SmallVector<Formed> formedBy(unsigned sweep) const;
  SmallVector<Value> addTerms(CodeBuilder &builder, Contexts contexts, ArrayRef<Value> exist, ArrayRef<Formed> formed,
                              ValueRange before);
  Value rebase(CodeBuilder &builder, Contexts contexts, const Formed &sum, Value value, Value before, Value largest);
  Value scaled(CodeBuilder &builder, Value vector, Value from, Value to);
  void finishAll(RowContext &row, ArrayRef<Formed> formed, ValueRange sums);
  void emitRead(RowContext &row);

  const int64_t group, vectors;
  Value member;    ///< of the group
  Value rowExists; ///< null: every row does
};

} // namespace

/// This thread's vectors of a row from number `begin` on. One beyond the end is the row's first, which is not counted.
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

/// The terms of a reduction in these vectors.
SmallVector<Value> RowsSkeleton::termsOf(Contexts contexts, ArrayRef<Value> exist, const GpuReduction &reduction) {
  SmallVector<Value> terms;
  for (ColumnContext &context : contexts)
    terms.push_back(function.vectors().vector(reduction.operand, plan.fullSpan(), context));
  for (auto [term, context, exists] : llvm::zip_equal(terms, contexts, exist))
    if (exists)
      term = function.choose(context.builder, exists, term, reduction.identity(context.builder, term.getType()));
  return terms;
}

/// Combines what the threads of the row's group hold.
void RowsSkeleton::finish(RowContext &row, const GpuReduction &reduction, CodeBuilder &builder, Value value) {
  Value whole = function.combineThreads(builder, reduction, value, group);
  row.values[{reduction.result, reduction.span}] = function.vectors().rounded(builder, whole, reduction.result);
}

/// The vectors are kept from sweep to sweep, with all that was computed from them.
void RowsSkeleton::emitHeld(RowContext &row) {
  SmallVector<ColumnContext> contexts;
  SmallVector<Value> exist, stored;
  addShare(row, 0, contexts, exist);
  for (Value exists : exist)
    stored.push_back(exists && rowExists ? both(exists, rowExists) : exists ? exists : rowExists);
  for (unsigned sweep = 0; sweep < plan.numSweeps; ++sweep) {
    for (ColumnContext &context : contexts)
      context.sweep = sweep;
    for (const GpuReduction &reduction : reductionsOf(sweep)) {
      Value terms = reduction.combine(row.builder, termsOf(contexts, exist, reduction));
      finish(row, reduction, row.builder, reduction.combineLanes(row.builder, terms));
    }
    // Builders of one block all insert before its end; branches come in the order in which they are made.
    storeOutputs(function.vectors(), contexts, stored, sweep);
  }
}

// Rows that are reread

/// The sums of a sweep that the one before can form, if that leaves nothing to do in it; else none.
SmallVector<dt::OnlineSum> RowsSkeleton::onlineSumsOf(unsigned sweep) const {
  SmallVector<dt::OnlineSum> sums;
  for (unsigned output = 0; output < plan.outputs.size(); ++output)
    if (storesIn(output, sweep))
      return {};
  for (auto [reduce, at] : llvm::zip_equal(plan.reductions, plan.reductionSweep)) {
    if (at != sweep)
      continue;
    std::optional<dt::OnlineSum> sum = dt::findOnlineSum(reduce);
    if (!sum || !plan.isReduction(sum->maximum))
      return {};
    sums.push_back(*sum);
  }
  return sums;
}

/// Maxima come first: sums that are relative to them need their new values.
SmallVector<RowsSkeleton::Formed> RowsSkeleton::formedBy(unsigned sweep) const {
  SmallVector<Formed> formed;
  for (const GpuReduction &reduction : reductionsOf(sweep))
    formed.push_back({reduction, std::nullopt, Value()});
  for (const dt::OnlineSum &sum : onlineSumsOf(sweep + 1)) {
    Value maximum = sum.maximum->getResult(0);
    auto found = llvm::find_if(formed, [&](const Formed &each) { return each.reduction.result == maximum; });
    found->isScalar = true;
    formed.push_back({GpuReduction(plan, sum.sum), size_t(found - formed.begin()), sum.base});
  }
  return formed;
}

/// Makes the terms relative to the largest element up to now and rescales what was relative to the previous one. Where
/// no element has been seen yet, terms are relative to 0, so that e^-infinity gives 0.
Value RowsSkeleton::rebase(CodeBuilder &builder, Contexts contexts, const Formed &sum, Value value, Value before,
                           Value largest) {
  Location loc = builder.loc;
  Value none = builder.constant(builder.getF32FloatAttr(-std::numeric_limits<float>::infinity()));
  Value isNone = arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OEQ, largest, none);
  Value zero = builder.constant(builder.getF32FloatAttr(0));
  Value base = arith::SelectOp::create(builder, loc, isNone, zero, largest);
  Value all = builder.splat(base, shape.lanes);
  for (ColumnContext &context : contexts)
    context.values[{sum.base, plan.fullSpan()}] = all;
  return scaled(builder, value, before, base);
}

/// Times e^(from - to).
Value RowsSkeleton::scaled(CodeBuilder &builder, Value vector, Value from, Value to) {
  Location loc = builder.loc;
  Value factor = math::ExpOp::create(builder, loc, arith::SubFOp::create(builder, loc, from, to).getResult());
  return arith::MulFOp::create(builder, loc, vector, builder.splat(factor, shape.lanes));
}

/// The reductions' values after adding these vectors.
SmallVector<Value> RowsSkeleton::addTerms(CodeBuilder &builder, Contexts contexts, ArrayRef<Value> exist,
                                          ArrayRef<Formed> formed, ValueRange before) {
  SmallVector<Value> after;
  for (auto [each, value] : llvm::zip_equal(formed, before)) {
    if (contexts.empty()) {
      after.push_back(value);
      continue;
    }
    Value sum = value;
    if (each.maximum)
      sum = rebase(builder, contexts, each, sum, before[*each.maximum], after[*each.maximum]);
    Value terms = each.reduction.combine(builder, termsOf(contexts, exist, each.reduction));
    if (each.isScalar)
      terms = each.reduction.combineLanes(builder, terms);
    after.push_back(each.reduction.combine(builder, terms, sum));
  }
  return after;
}

/// Sums that are relative to what a thread has seen become relative to the row's maximum: NaN if that is infinite.
void RowsSkeleton::finishAll(RowContext &row, ArrayRef<Formed> formed, ValueRange sums) {
  for (auto [each, sum] : llvm::zip_equal(formed, sums)) {
    Value value = sum;
    if (each.maximum) {
      const GpuReduction &maximum = formed[*each.maximum].reduction;
      value = scaled(row.builder, value, sums[*each.maximum], row.values[{maximum.result, maximum.span}]);
    }
    if (!each.isScalar)
      value = each.reduction.combineLanes(row.builder, value);
    finish(row, each.reduction, row.builder, value);
  }
}

/// Whole rounds of the block in a loop, the rest after it. The row belongs only to this block, and exists.
void RowsSkeleton::emitRead(RowContext &row) {
  KernelValues &values = function.vectors();
  CodeBuilder &builder = row.builder;
  function.op()->setAttr(blocksAtOnce, builder.getI32IntegerAttr(GpuShape::longRowBlocks));
  int64_t round = shape.vectorsOfRound * group, whole = vectors / round * round;
  for (unsigned sweep = 0; sweep < plan.numSweeps; ++sweep) {
    if (sweep > 0 && !onlineSumsOf(sweep).empty())
      continue; // the sweep before has formed them
    SmallVector<Formed> formed = formedBy(sweep);
    SmallVector<Value> sums;
    for (const auto &[reduction, maximum, base, isScalar] : formed)
      sums.push_back(reduction.identity(builder, isScalar ? reduction.element : values.vectorType(reduction.element)));
    auto body = [&](CodeBuilder &inner, Value first, ValueRange before) {
      SmallVector<ColumnContext> contexts;
      SmallVector<Value> exist(shape.vectorsOfRound);
      for (int64_t i = 0; i < shape.vectorsOfRound; ++i) {
        Value number = inner.add(inner.add(first, member), inner.integer(i * group));
        contexts.emplace_back(row, inner, inner.mul(number, inner.integer(shape.lanes)), Value(), sweep);
      }
      SmallVector<Value> after = addTerms(inner, contexts, exist, formed, before);
      storeOutputs(values, contexts, exist, sweep);
      return after;
    };
    sums = function.loop(builder, builder.integer(0), builder.integer(whole), round, sums, body);
    SmallVector<ColumnContext> contexts;
    SmallVector<Value> exist;
    addShare(row, whole, contexts, exist);
    for (ColumnContext &context : contexts)
      context.sweep = sweep;
    sums = addTerms(builder, contexts, exist, formed, sums);
    storeOutputs(values, contexts, exist, sweep);
    finishAll(row, formed, sums);
  }
}

void dtc::emitGpuRows(GpuFunction &function, size_t pass) { RowsSkeleton(function, pass).emit(); }
