// Chains of collectives between placements.
#include "passes/place/Reshard.h"
#include "dialect/IR/ElementTypes.h"
#include "dialect/IR/Names.h"
#include "dialect/IR/Ops.h"
#include "runtime/abi/volume.h"

using namespace mlir;
using namespace mlir::dt;
using namespace dtc;

namespace {
using Kind = ReshardStep::Kind;

/// Plans one chain; `current` is the placement reached.
class Planner {
public:
  Planner(const AxisTable &axes, ArrayRef<int64_t> global, const Placement &from, const Placement &to)
      : global(global), current(from), unresolved(from.partial.without(to.partial)) {
    for (auto [dim, size] : llvm::enumerate(global)) {
      ArrayRef<int> has = from.dims[dim], wants = to.dims[dim];
      size_t common = 0;
      while (common < std::min(has.size(), wants.size()) && has[common] == wants[common])
        ++common;
      bool uneven = axes.isPadded(size, has) || axes.isPadded(size, wants);
      if (has != wants && uneven)
        common = 0;
      padded.push_back(uneven);
      removed.emplace_back(has.drop_front(common));
      added.emplace_back(wants.drop_front(common));
    }
  }

  SmallVector<ReshardStep> plan() {
    do { // one kind of partial values after the other
      for (size_t dim = 0; dim < global.size(); ++dim)
        if (removed[dim].empty())
          cutBeforeMoving(dim);
      if (AtomMask rest = unresolved[unresolved.firstKind()]) {
        AtomList all;
        for (int atom = 0; atom < 64; ++atom)
          if ((rest >> atom) & 1)
            all.push_back(atom);
        resolve(rest, Kind::AllReduce, 0, all);
      }
    } while (unresolved.mask());
    for (size_t from = 0; from < global.size(); ++from)
      for (size_t to = 0; to < global.size(); ++to)
        exchange(from, to);
    for (size_t dim = 0; dim < global.size(); ++dim)
      if (!removed[dim].empty()) {
        current.dims[dim].pop_back_n(removed[dim].size());
        push(Kind::AllGather, dim, 0, removed[dim]);
      }
    for (size_t dim = 0; dim < global.size(); ++dim)
      if (!added[dim].empty()) {
        llvm::append_range(current.dims[dim], added[dim]);
        push(Kind::Slice, dim, 0, added[dim]);
      }
    return std::move(steps);
  }

private:
  /// Cuts `dim` as far as possible without gathering first: by reduce_scatter over partial axes, by slicing over free
  /// ones.
  void cutBeforeMoving(size_t dim) {
    AtomList &rest = added[dim];
    AtomMask busy = current.splitMask() | current.partial.mask();
    auto leading = [&](AtomMask mask, bool within) {
      return llvm::find_if(rest, [&](int atom) { return ((mask >> atom) & 1) != within; }) - rest.begin();
    };
    while (!rest.empty()) {
      size_t reduced = leading(unresolved[unresolved.firstKind()], true), free = leading(busy, false);
      size_t count = std::max(reduced, free);
      if (count == 0 || (padded[dim] && count != rest.size()))
        return;
      AtomList run(rest.begin(), rest.begin() + count);
      rest.erase(rest.begin(), rest.begin() + count);
      llvm::append_range(current.dims[dim], run);
      if (reduced)
        resolve(maskOf(run), Kind::ReduceScatter, dim, run);
      else
        push(Kind::Slice, dim, 0, run);
    }
  }

  /// Adds a step for the first kind that is still to be resolved.
  void resolve(AtomMask atoms, Kind kind, size_t dim, const AtomList &run) {
    ReductionKind reduction = unresolved.firstKind();
    unresolved = unresolved.within(~atoms);
    current = current.withPartial(~atoms);
    push(kind, dim, 0, run, reduction);
  }

  void exchange(size_t from, size_t to) {
    if (from == to || removed[from].empty() || removed[from] != added[to] || !removed[to].empty() || padded[from] ||
        padded[to])
      return;
    AtomList atoms = removed[from];
    current.dims[from].pop_back_n(atoms.size());
    llvm::append_range(current.dims[to], atoms);
    removed[from].clear();
    added[to].clear();
    push(Kind::AllToAll, to, from, atoms);
  }

  void push(Kind kind, size_t dim, size_t concatDim, const AtomList &atoms,
            ReductionKind reduction = ReductionKind::Sum) {
    steps.push_back({kind, static_cast<int64_t>(dim), static_cast<int64_t>(concatDim), atoms, reduction, current});
  }

  ArrayRef<int64_t> global;
  Placement current;
  Partials unresolved;
  SmallVector<bool> padded;
  SmallVector<AtomList> removed, added; ///< by dimension: axes to gather over, axes to cut by
  SmallVector<ReshardStep> steps;
};

/// Builds one chain.
class Emitter {
public:
  Emitter(OpBuilder &builder, const AxisTable &axes, RankedTensorType global, const ReshardNote &note)
      : builder(builder), axes(axes), global(global), note(note) {
    reason = note.reason.empty() ? StringAttr() : builder.getStringAttr(note.reason);
    remedy = note.remedy.empty() ? StringAttr() : builder.getStringAttr(note.remedy);
  }

  Value emit(Value local, const ReshardStep &step) {
    ArrayAttr over = axes.attributeOf(step.atoms);
    int64_t ranks = axes.product(step.atoms);
    RankedTensorType result = axes.localType(global, step.after);
    auto operand = cast<RankedTensorType>(local.getType());
    switch (step.kind) {
    case Kind::AllReduce:
      return mark(AllReduceOp::create(builder, note.loc, operand, local, over, step.reduction, DenseI32ArrayAttr(),
                                      reason, remedy));
    case Kind::ReduceScatter: {
      RankedTensorType padded = withDim(operand, step.dim, result.getDimSize(step.dim) * ranks);
      if (padded != operand)
        local = mark(PadOp::create(builder, note.loc, padded, local, zeros(operand)));
      return mark(ReduceScatterOp::create(builder, note.loc, result, local, over, step.reduction, step.dim, reason,
                                          remedy));
    }
    case Kind::AllToAll:
      return mark(AllToAllOp::create(builder, note.loc, result, local, over, step.dim, step.concatDim, reason, remedy));
    case Kind::AllGather: {
      RankedTensorType gathered = withDim(operand, step.dim, operand.getDimSize(step.dim) * ranks);
      Value whole = mark(AllGatherOp::create(builder, note.loc, gathered, local, over, step.dim, reason, remedy));
      return gathered == result ? whole : mark(SliceOp::create(builder, note.loc, result, whole, zeros(operand)));
    }
    case Kind::Slice:
      return mark(ShardSliceOp::create(builder, note.loc, result, local, step.dim, over));
    }
    llvm_unreachable("all kinds are covered");
  }

private:
  static RankedTensorType withDim(RankedTensorType type, int64_t dim, int64_t size) {
    SmallVector<int64_t> shape(type.getShape());
    shape[dim] = size;
    return RankedTensorType::get(shape, type.getElementType());
  }
  static SmallVector<int64_t> zeros(RankedTensorType type) { return SmallVector<int64_t>(type.getRank(), 0); }

  Value mark(Operation *op) {
    dt::mark(op, note.marks);
    return op->getResult(0);
  }

  OpBuilder &builder;
  const AxisTable &axes;
  RankedTensorType global;
  const ReshardNote &note;
  StringAttr reason, remedy;
};
} // namespace

SmallVector<ReshardStep> dtc::planReshard(const AxisTable &axes, ArrayRef<int64_t> global, const Placement &from,
                                          const Placement &to) {
  return Planner(axes, global, from, to).plan();
}

static double pieceBytes(const AxisTable &axes, RankedTensorType global, const Placement &placement) {
  double bytes = elementTypeOf(global).bytes;
  for (int64_t size : axes.localShape(global.getShape(), placement))
    bytes *= static_cast<double>(size);
  return bytes;
}

/// None for what each rank does alone.
static std::optional<abi::Collective::Kind> collectiveOf(Kind kind) {
  switch (kind) {
  case Kind::AllReduce:
    return abi::Collective::ALL_REDUCE;
  case Kind::ReduceScatter:
    return abi::Collective::REDUCE_SCATTER;
  case Kind::AllToAll:
    return abi::Collective::ALL_TO_ALL;
  case Kind::AllGather:
    return abi::Collective::ALL_GATHER;
  case Kind::Slice:
    return std::nullopt;
  }
  llvm_unreachable("all kinds are covered");
}

double dtc::reshardBytes(const AxisTable &axes, RankedTensorType global, const Placement &from,
                         ArrayRef<ReshardStep> steps) {
  double total = 0, before = pieceBytes(axes, global, from);
  for (const ReshardStep &step : steps) {
    double after = pieceBytes(axes, global, step.after);
    if (std::optional<abi::Collective::Kind> kind = collectiveOf(step.kind))
      total += abi::sentBytes(*kind, std::max(before, after), axes.product(step.atoms));
    before = after;
  }
  return total;
}

Value dtc::buildReshard(OpBuilder &builder, const AxisTable &axes, Value local, RankedTensorType global,
                        ArrayRef<ReshardStep> steps, const ReshardNote &note) {
  Emitter emitter(builder, axes, global, note);
  for (const ReshardStep &step : steps)
    local = emitter.emit(local, step);
  return local;
}
