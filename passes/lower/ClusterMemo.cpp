// Groups of operations by what matters to a kernel.
#include "passes/lower/ClusterMemo.h"
#include "passes/lower/KernelDomain.h"

using namespace mlir;
using namespace mlir::dt;

bool dtc::ClusterMemo::canShareKernel(ArrayRef<Operation *> ops, ArrayRef<Value> outputs) {
  auto [entry, isNew] = known.try_emplace(keyOf(ops, outputs));
  if (isNew)
    entry->second = dtc::canShareKernel(ops, outputs);
  return entry->second;
}

/// The attributes that belong to the operation, where a draw's place is its number among `sites`.
static uint64_t hashAttributes(Operation *op, SmallVectorImpl<uint64_t> &sites) {
  auto sited = dyn_cast<SitedOpInterface>(op);
  if (!sited)
    return op->hashProperties();
  uint64_t site = sited.getSite();
  auto *number = llvm::find(sites, site);
  sited.setSite(number - sites.begin());
  if (number == sites.end())
    sites.push_back(site);
  uint64_t hash = op->hashProperties();
  sited.setSite(site);
  return hash;
}

dtc::ClusterMemo::Key dtc::ClusterMemo::keyOf(ArrayRef<Operation *> ops, ArrayRef<Value> outputs) {
  Key key;
  DenseMap<Value, uint64_t> numbers;
  SmallVector<uint64_t> sites;
  auto pointer = [](const void *opaque) { return reinterpret_cast<uintptr_t>(opaque); };
  auto add = [&](Value value) {
    auto [entry, isNew] = numbers.try_emplace(value, numbers.size());
    key.push_back(entry->second);
    if (isNew)
      key.push_back(pointer(value.getType().getAsOpaquePointer()));
  };
  for (Operation *op : ops) {
    key.push_back(pointer(op->getName().getAsOpaquePointer()));
    key.push_back(hashAttributes(op, sites));
    key.push_back(op->getNumOperands());
    llvm::for_each(op->getOperands(), add);
    llvm::for_each(op->getResults(), add);
  }
  llvm::for_each(outputs, add);
  return key;
}
