// Splitting of an operation's factors.
#include "passes/place/Iteration.h"

using namespace mlir;
using namespace mlir::dt;
using namespace dtc;

Loops::Loops(FactorOpInterface op) : rule(op.getFactorRule()) {
  mustDivide.assign(rule.factors.size(), false);
  for (const Factor &factor : rule.factors)
    canSplit.push_back(factor.kind != FactorKind::NeedsReplication && factor.size > 1);
  auto visit = [&](const SmallVectorImpl<DimFactors> &tensors) {
    for (const DimFactors &dims : tensors)
      for (ArrayRef<int> dim : dims) {
        if (dim.size() < 2)
          continue;
        mustDivide[dim.front()] = true;
        for (int minor : dim.drop_front())
          canSplit[minor] = false;
      }
  };
  visit(rule.operands);
  visit(rule.results);
}

const Loops &LoopTable::of(FactorOpInterface op) {
  auto number = [](const void *pointer) { return reinterpret_cast<uintptr_t>(pointer); };
  Key key = {number(op->getName().getAsOpaquePointer()), op->hashProperties()};
  for (Type type : op->getOperandTypes())
    key.push_back(number(type.getAsOpaquePointer()));
  for (Type type : op->getResultTypes())
    key.push_back(number(type.getAsOpaquePointer()));
  std::unique_ptr<const Loops> &loops = known[std::move(key)];
  if (!loops)
    loops = std::make_unique<const Loops>(op);
  return *loops;
}

Iteration::Iteration(const Loops &loops)
    : rule(loops.rule), canSplit(loops.canSplit), mustDivide(loops.mustDivide), atoms(loops.rule.factors.size()) {}

AtomMask Iteration::usedMask() const {
  AtomMask mask = 0;
  for (const AtomList &list : atoms)
    mask |= maskOf(list);
  return mask;
}

Placement Iteration::placementOf(const DimFactors &dims) const {
  Placement placement = Placement::replicated(dims.size());
  for (auto [list, factors] : llvm::zip_equal(placement.dims, dims))
    if (!factors.empty())
      list = atoms[factors.front()];
  return placement;
}

Partials Iteration::partialOf(unsigned result) const {
  Partials partial;
  for (auto [i, factor] : llvm::enumerate(rule.factors))
    if (factor.kind == FactorKind::Reduction && !atoms[i].empty() && !contains(rule.results[result], i))
      partial[factor.reduction] |= maskOf(atoms[i]);
  return partial;
}

bool Iteration::contains(const DimFactors &dims, int factor) {
  return llvm::any_of(dims, [&](ArrayRef<int> dim) { return llvm::is_contained(dim, factor); });
}

void Iteration::drop(AtomMask mask) {
  for (AtomList &list : atoms)
    llvm::erase_if(list, [&](int atom) { return (mask >> atom) & 1; });
}
