// Identifies groups of operations by what matters to a kernel.
#include "passes/lower/code/ClusterMemo.h"
#include "passes/lower/kernels/KernelPlan.h"

using namespace mlir;
using namespace mlir::dt;

bool dtc::ClusterMemo::canShareKernel(ArrayRef<Operation *> ops, ArrayRef<Value> outputs) {
  auto [entry, isNew] = canShare.try_emplace(keyOf(ops, {}, outputs));
  if (isNew)
    entry->second = dtc::canShareKernel(ops, outputs);
  return entry->second;
}

namespace {
/// While this object lives, the place of an operation's draw is its number among those met before.
class NumberedSite {
public:
  NumberedSite(Operation *op, SmallVectorImpl<uint64_t> &sites) : op(dyn_cast<SitedOpInterface>(op)) {
    if (!this->op)
      return;
    site = this->op.getSite();
    auto *number = llvm::find(sites, site);
    this->op.setSite(number - sites.begin());
    if (number == sites.end())
      sites.push_back(site);
  }
  ~NumberedSite() {
    if (op)
      op.setSite(site);
  }

private:
  SitedOpInterface op;
  uint64_t site = 0;
};
} // namespace

/// Whether a kernel with the key of `ops` is really theirs: a key holds only a hash of each operation's attributes.
static bool hasAttributesOf(KernelOp kernel, ArrayRef<Operation *> ops) {
  SmallVector<uint64_t> sites;
  return llvm::all_of(llvm::zip_equal(kernel.getBody().front().without_terminator(), ops), [&](auto pair) {
    auto [in, op] = pair;
    NumberedSite numbered(op, sites);
    return in.getName().compareOpProperties(in.getPropertiesStorage(), op->getPropertiesStorage());
  });
}

KernelOp dtc::ClusterMemo::kernelOf(ArrayRef<Operation *> ops, ArrayRef<Value> inputs, ArrayRef<Value> outputs,
                                    function_ref<KernelOp()> outline) {
  KernelOp &kernel = kernels[keyOf(ops, inputs, outputs)];
  if (!kernel || !hasAttributesOf(kernel, ops))
    kernel = outline();
  return kernel;
}

dtc::ClusterMemo::Key dtc::ClusterMemo::keyOf(ArrayRef<Operation *> ops, ArrayRef<Value> inputs,
                                              ArrayRef<Value> outputs) {
  Key key;
  llvm::SmallDenseMap<Value, uint64_t, 64> numbers;
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
    NumberedSite numbered(op, sites);
    key.push_back(op->hashProperties());
    key.push_back(op->getNumOperands());
    llvm::for_each(op->getOperands(), add);
    llvm::for_each(op->getResults(), add);
  }
  llvm::for_each(inputs, add);
  llvm::for_each(outputs, add);
  return key;
}
