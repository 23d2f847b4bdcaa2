// Groups elementwise operations and reductions into kernels; see Passes.td for the idea.
#include "dialect/IR/Locations.h"
#include "dialect/IR/Marks.h"
#include "dialect/IR/Names.h"
#include "passes/analysis/StoredValues.h"
#include "passes/lower/Passes.h"
#include "passes/lower/Targets.h"
#include "passes/lower/code/ClusterMemo.h"
#include "passes/lower/kernels/KernelPlan.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/IR/Threading.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

#include <deque>

namespace dtc {
#define GEN_PASS_DEF_FUSEKERNELS
#include "passes/lower/Passes.h.inc"
} // namespace dtc

using namespace mlir;
using namespace mlir::dt;

namespace {

/// The name of a kernel that has none yet.
constexpr StringLiteral anyKernel = "kernel";

/// Operations that run together. `ops` are its heavy operations in program order.
struct Cluster {
  SmallVector<Operation *> ops;
  int level = 0;
  bool emitted = false;
};

/// The sites of a kernel's draws. The kernel refers to them by their number here, so that layers share it.
SmallVector<int64_t> sitesOf(ArrayRef<Operation *> ops) {
  llvm::SmallSetVector<int64_t, 4> sites;
  for (Operation *op : ops)
    if (auto sited = dyn_cast<SitedOpInterface>(op))
      sites.insert(sited.getSite());
  return sites.takeVector();
}

/// A kernel that computes `outputs` from `inputs`.
OwningOpRef<KernelOp> buildKernel(Location loc, ArrayRef<Operation *> ops, ArrayRef<Value> inputs,
                                  ArrayRef<Value> outputs) {
  OpBuilder builder(loc.getContext());
  auto types = [](ValueRange values) { return llvm::to_vector(values.getTypes()); };
  OwningOpRef<KernelOp> kernel =
      KernelOp::create(builder, loc, anyKernel, builder.getFunctionType(types(inputs), types(outputs)));
  Block &body = kernel->getBody().front();
  builder.setInsertionPointToEnd(&body);
  IRMapping mapping;
  mapping.map(inputs, body.getArguments());
  SmallVector<int64_t> sites = sitesOf(ops);
  for (Operation *op : ops) {
    Operation *clone = builder.clone(*op, mapping);
    clone->setDiscardableAttrs(DictionaryAttr::get(loc.getContext()));
    if (auto sited = dyn_cast<SitedOpInterface>(clone))
      sited.setSite(llvm::find(sites, sited.getSite()) - sites.begin());
  }
  YieldOp::create(builder, loc, llvm::map_to_vector(outputs, [&](Value v) { return mapping.lookup(v); }));
  return kernel;
}

/// The fusion of one function.
class Fusion {
public:
  /// `memo`: of this function, or of several that are fused one after the other.
  Fusion(func::FuncOp function, const dtc::Target &target, dtc::ClusterMemo &memo)
      : function(function), memo(memo), maxBuffers(target.getMaxBuffers()), values(maxBuffers / 2) {}

  void classify();
  void cluster();
  /// Replaces every cluster by a launch of a kernel of its own making; equal clusters share one.
  void emit();
  /// Launches what `nameOf` gives for the kernel of each launch, in their order.
  void share(function_ref<FlatSymbolRefAttr(KernelOp)> nameOf);

private:
  bool isKernelOp(Operation *op) { return values.isKernel(op); }
  bool isHeavy(Operation *op) const { return heavy.contains(op); }
  ArrayRef<Value> inputsOf(Operation *op) { return values.inputsOf(op); }
  int levelOf(Value value);
  Cluster *clusterOf(Value value);
  SmallVector<Cluster *> candidatesFor(ArrayRef<Value> inputs);
  bool areOfOnePart(ArrayRef<Operation *> heavyOps) const;
  bool canHold(ArrayRef<Operation *> heavyOps);
  bool tryMerge(Cluster *into, Cluster *from);
  void place(Operation *op);
  bool isUsedOutside(Operation *op, const SmallPtrSetImpl<Operation *> &inside);
  SmallVector<Operation *> withLightProducers(ArrayRef<Operation *> heavyOps);
  using KernelOf = function_ref<KernelOp(ArrayRef<Operation *> ops, ArrayRef<Value> inputs, ArrayRef<Value> outputs)>;
  void emitOperation(Operation *op, KernelOf kernelOf);
  void emitCluster(Cluster &cluster, KernelOf kernelOf);

  func::FuncOp function;
  dtc::ClusterMemo &memo;
  const size_t maxBuffers;
  dtc::StoredValues values;
  DenseSet<Operation *> heavy;
  DenseMap<Operation *, IntegerAttr> parts; ///< of heavy operations that have one
  std::deque<Cluster> made;                 ///< all ever made; one that was merged into another has no operations
  DenseMap<Operation *, Cluster *> clusters;
  DenseMap<Value, SmallVector<Cluster *>> readers; ///< clusters that read a stored value
  DenseMap<Operation *, int> levels;               ///< of operations outside kernels
  DenseSet<Operation *> done;
  Marker marker;
  IRMapping stored; ///< old value -> the value that now holds it
  SmallVector<OwningOpRef<KernelOp>> kernels; ///< those that no function before this one made
  /// Who launches which kernel.
  SmallVector<std::pair<LaunchOp, KernelOp>> launches;
};

void Fusion::classify() {
  size_t size = function.front().getOperations().size();
  values.reserve(size);
  heavy.reserve(size);
  clusters.reserve(size);
  done.reserve(size);
  for (Operation &op : function.front())
    if (values.isHeavy(&op)) {
      heavy.insert(&op);
      if (IntegerAttr part = marksOf(&op).part)
        parts[&op] = part;
    }
}

Cluster *Fusion::clusterOf(Value value) {
  Operation *op = value.getDefiningOp();
  return op ? clusters.lookup(op) : nullptr;
}

int Fusion::levelOf(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return 0;
  if (Cluster *cluster = clusters.lookup(op))
    return cluster->level;
  return levels.lookup(op);
}

bool Fusion::isUsedOutside(Operation *op, const SmallPtrSetImpl<Operation *> &inside) {
  return llvm::any_of(op->getUsers(), [&](Operation *user) {
    if (isKernelOp(user) && !isHeavy(user))
      return isUsedOutside(user, inside);
    return !inside.contains(user);
  });
}

SmallVector<Operation *> Fusion::withLightProducers(ArrayRef<Operation *> heavyOps) {
  SmallVector<Operation *> order;
  SmallPtrSet<Operation *, 16> seen, inside(heavyOps.begin(), heavyOps.end());
  std::function<void(Operation *)> visit = [&](Operation *op) {
    if (!seen.insert(op).second)
      return;
    for (Value operand : op->getOperands())
      if (Operation *producer = operand.getDefiningOp())
        if (inside.contains(producer) || (isKernelOp(producer) && !isHeavy(producer)))
          visit(producer);
    order.push_back(op);
  };
  llvm::for_each(heavyOps, visit);
  return order;
}

/// Parts run at different times.
bool Fusion::areOfOnePart(ArrayRef<Operation *> heavyOps) const {
  return parts.empty() ||
         llvm::all_of(heavyOps, [&](Operation *op) { return parts.lookup(op) == parts.lookup(heavyOps.front()); });
}

bool Fusion::canHold(ArrayRef<Operation *> heavyOps) {
  if (!areOfOnePart(heavyOps))
    return false;
  SmallPtrSet<Operation *, 16> inside(heavyOps.begin(), heavyOps.end());
  llvm::SmallSetVector<Value, 16> buffers;
  SmallVector<Value> outputs;
  for (Operation *op : heavyOps) {
    for (Value input : inputsOf(op))
      if (!inside.contains(input.getDefiningOp()))
        buffers.insert(input);
    if (isUsedOutside(op, inside))
      outputs.push_back(op->getResult(0));
  }
  return buffers.size() + outputs.size() <= maxBuffers && memo.canShareKernel(withLightProducers(heavyOps), outputs);
}

/// Clusters that produce or read one of the inputs, latest first.
SmallVector<Cluster *> Fusion::candidatesFor(ArrayRef<Value> inputs) {
  llvm::SmallSetVector<Cluster *, 8> found;
  for (Value input : inputs)
    if (Cluster *cluster = clusterOf(input))
      found.insert(cluster);
  constexpr size_t recent = 4;
  for (Value input : inputs)
    for (Cluster *reader : ArrayRef(readers[input]).take_back(recent))
      if (!reader->ops.empty())
        found.insert(reader);
  SmallVector<Cluster *> result(found.begin(), found.end());
  llvm::sort(result, [](Cluster *a, Cluster *b) {
    return a->level != b->level ? a->level > b->level : a->ops.front()->isBeforeInBlock(b->ops.front());
  });
  return result;
}

bool Fusion::tryMerge(Cluster *into, Cluster *from) {
  SmallVector<Operation *> ops = into->ops;
  llvm::append_range(ops, from->ops);
  llvm::sort(ops, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  if (!canHold(ops))
    return false;
  for (Operation *op : from->ops) {
    clusters[op] = into;
    for (Value input : inputsOf(op))
      readers[input].push_back(into);
  }
  into->ops = std::move(ops);
  from->ops.clear();
  return true;
}

/// Puts a heavy operation into a cluster that can hold it, or into one of its own.
void Fusion::place(Operation *op) {
  ArrayRef<Value> inputs = inputsOf(op);
  int top = 0;
  for (Value input : inputs)
    top = std::max(top, levelOf(input));
  // Producers at the top level can only take this operation in if they are one cluster.
  Cluster *producer = nullptr;
  for (Value input : inputs)
    if (Cluster *cluster = clusterOf(input); cluster && cluster->level == top && cluster != producer) {
      if (producer && !tryMerge(producer, cluster))
        break;
      if (!producer)
        producer = cluster;
    }
  // What is recomputed is computed late, so it joins no earlier cluster.
  bool alone = llvm::any_of(inputs, [](Value input) {
    Operation *producer = input.getDefiningOp();
    return producer && producer->hasTrait<SeparatesKernels>();
  });
  for (Cluster *candidate : alone ? SmallVector<Cluster *>() : candidatesFor(inputs)) {
    bool available = llvm::all_of(
        inputs, [&](Value input) { return clusterOf(input) == candidate || levelOf(input) < candidate->level; });
    SmallVector<Operation *> ops = candidate->ops;
    ops.push_back(op);
    if (!available || !canHold(ops))
      continue;
    candidate->ops = std::move(ops);
    clusters[op] = candidate;
    break;
  }
  Cluster *&cluster = clusters[op];
  if (!cluster) {
    cluster = &made.emplace_back();
    cluster->ops = {op};
    cluster->level = top + 1;
  }
  for (Value input : inputs)
    readers[input].push_back(cluster);
}

void Fusion::cluster() {
  for (Operation &op : function.front()) {
    if (isHeavy(&op)) {
      place(&op);
    } else if (!isKernelOp(&op)) {
      int level = 0;
      for (Value operand : op.getOperands())
        values.forEachInput(operand, [&](Value input) { level = std::max(level, levelOf(input)); });
      levels[&op] = level + 1;
    }
  }
}

/// Emits what produces `value`, unless that has been done.
void Fusion::emitOperation(Operation *op, KernelOf kernelOf) {
  if (Cluster *cluster = clusters.lookup(op)) {
    emitCluster(*cluster, kernelOf);
    return;
  }
  if (!done.insert(op).second)
    return;
  for (Value operand : op->getOperands())
    if (Operation *producer = operand.getDefiningOp())
      emitOperation(producer, kernelOf);
  op->moveBefore(&function.front(), function.front().end());
  for (OpOperand &operand : op->getOpOperands())
    operand.set(stored.lookupOrDefault(operand.get()));
}

/// The location of the first; what is recomputed along with other work is not work of its own.
static Location locationOf(ArrayRef<Operation *> ops) {
  Location first = ops.front()->getLoc();
  return llvm::all_of(ops, [](Operation *op) { return dtc::isMadeAgain(op->getLoc()); }) ? first : dtc::madeOnce(first);
}

void Fusion::emitCluster(Cluster &cluster, KernelOf kernelOf) {
  if (cluster.emitted)
    return;
  cluster.emitted = true;
  SmallPtrSet<Operation *, 16> inside(cluster.ops.begin(), cluster.ops.end());
  llvm::SmallSetVector<Value, 16> inputs;
  SmallVector<Value> outputs;
  for (Operation *op : cluster.ops) {
    for (Value input : inputsOf(op))
      if (!inside.contains(input.getDefiningOp()))
        inputs.insert(input);
    if (isUsedOutside(op, inside))
      outputs.push_back(op->getResult(0));
  }
  for (Value input : inputs)
    if (Operation *producer = input.getDefiningOp())
      emitOperation(producer, kernelOf);

  SmallVector<Operation *> ops = withLightProducers(cluster.ops);
  KernelOp kernel = kernelOf(ops, inputs.getArrayRef(), outputs);
  OpBuilder builder(function.getContext());
  builder.setInsertionPointToEnd(&function.front());
  auto operands = llvm::map_to_vector(inputs, [&](Value v) { return stored.lookupOrDefault(v); });
  auto launch = LaunchOp::create(builder, locationOf(cluster.ops), TypeRange(ValueRange(outputs)),
                                 FlatSymbolRefAttr::get(kernel), operands, builder.getDenseI64ArrayAttr(sitesOf(ops)));
  launches.push_back({launch, kernel});
  marker.mark(launch, joinMarks(cluster.ops));
  stored.map(outputs, launch.getResults());
}

void Fusion::emit() {
  auto kernelOf = [&](ArrayRef<Operation *> ops, ArrayRef<Value> inputs, ArrayRef<Value> outputs) {
    return memo.kernelOf(ops, inputs, outputs,
                         [&] { return *kernels.emplace_back(buildKernel(function.getLoc(), ops, inputs, outputs)); });
  };
  SmallVector<Operation *> order;
  for (Operation &op : function.front())
    order.push_back(&op);
  for (Operation *op : order)
    if (isHeavy(op) || !isKernelOp(op))
      emitOperation(op, kernelOf);
  for (Operation *op : llvm::reverse(order))
    if (isKernelOp(op)) {
      op->dropAllUses();
      op->erase();
    }
}

void Fusion::share(function_ref<FlatSymbolRefAttr(KernelOp)> nameOf) {
  for (auto [launch, kernel] : launches)
    launch.setKernelAttr(nameOf(kernel));
}

/// What a kernel does: the purposes of its operations in their order, without data movement between them, as in
/// "add_layer_norm". This is for people: the first kernel with a body names it, and equal bodies are one kernel,
/// whatever they are for.
std::string describeWork(KernelOp kernel) {
  constexpr size_t most = 3;
  llvm::SmallSetVector<StringRef, 8> arithmetic, all;
  for (Operation &op : kernel.getBody().front().without_terminator()) {
    if (op.hasTrait<OpTrait::ConstantLike>())
      continue;
    StringRef purpose = dtc::purposeOf(&op);
    all.insert(purpose);
    if (auto cost = dyn_cast<CostOpInterface>(op); cost && cost.getFlops() > 0)
      arithmetic.insert(purpose);
  }
  ArrayRef<StringRef> parts = arithmetic.empty() ? all.getArrayRef() : arithmetic.getArrayRef();
  if (parts.empty())
    return "constant";
  return llvm::join(parts.take_front(most), "_") + (parts.size() > most ? "_and_more" : "");
}

/// Gives every distinct kernel body one symbol at the end of the module.
class KernelTable {
public:
  explicit KernelTable(ModuleOp module) : symbols(module) {
    for (auto kernel : module.getOps<KernelOp>())
      known[hashOf(kernel)].push_back(kernel);
  }

  /// The one kernel that is equal to `kernel`, which is called `anyKernel`.
  KernelOp insert(KernelOp kernel) {
    SmallVector<KernelOp, 1> &alike = known[hashOf(kernel)];
    auto *found = llvm::find_if(alike, [&](KernelOp other) { return isEqual(kernel, other); });
    if (found != alike.end())
      return *found;
    KernelOp copy = kernel.clone();
    std::string work = describeWork(kernel), name;
    do // kernels that were there before keep their names
      name = work + "_" + std::to_string(named[work]++);
    while (symbols.lookup(name));
    copy.setSymName(name);
    symbols.insert(copy);
    alike.push_back(copy);
    return copy;
  }

private:
  static llvm::hash_code hashOf(KernelOp kernel) {
    llvm::hash_code hash = hash_value(Type(kernel.getFunctionType()));
    for (Operation &op : kernel.getBody().front())
      hash = llvm::hash_combine(hash, OperationEquivalence::computeHash(&op, OperationEquivalence::ignoreHashValue,
                                                                        OperationEquivalence::ignoreHashValue,
                                                                        OperationEquivalence::IgnoreLocations));
    return hash;
  }

  static bool isEqual(KernelOp a, KernelOp b) {
    return a.getFunctionType() == b.getFunctionType() &&
           OperationEquivalence::isRegionEquivalentTo(&a.getBody(), &b.getBody(),
                                                      OperationEquivalence::IgnoreLocations);
  }

  SymbolTable symbols;
  DenseMap<size_t, SmallVector<KernelOp, 1>> known; ///< by hash
  llvm::StringMap<int> named;                       ///< number of kernels with that name
};

/// Functions that are fused one after the other and share a memo, since most stages of a pipeline do the same.
struct FusionGroup {
  dtc::ClusterMemo memo;
  SmallVector<Fusion *> fusions;

  void run() {
    for (Fusion *fusion : fusions) {
      fusion->classify();
      fusion->cluster();
      fusion->emit();
    }
  }
};

/// The duty without the stage; null for a function without a duty.
DutyAttr dutyInAnyStage(func::FuncOp function) {
  DutyAttr duty = dutyOf(function);
  return duty ? DutyAttr::get(duty.getContext(), duty.getTask(), /*stage=*/0, duty.getTimetable(),
                              duty.getMicroBatches())
              : DutyAttr();
}

struct FuseKernels : dtc::impl::FuseKernelsBase<FuseKernels> {
  void runOnOperation() override {
    const dtc::Target &target = dtc::targetOf(getOperation());
    std::deque<Fusion> fusions;
    std::deque<FusionGroup> groups;
    DenseMap<DutyAttr, FusionGroup *> groupOf;
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      DutyAttr duty = dutyInAnyStage(function);
      FusionGroup *&group = groupOf[duty];
      if (!group || !duty)
        group = &groups.emplace_back();
      group->fusions.push_back(&fusions.emplace_back(function, target, group->memo));
    }
    parallelForEach(&getContext(), groups, [](FusionGroup &group) { group.run(); });
    // One function after the other: a kernel gets the name that the first function gives it.
    KernelTable table(getOperation());
    DenseMap<Operation *, FlatSymbolRefAttr> names;
    for (Fusion &fusion : fusions)
      fusion.share([&](KernelOp kernel) {
        FlatSymbolRefAttr &name = names[kernel];
        if (!name)
          name = FlatSymbolRefAttr::get(table.insert(kernel));
        return name;
      });
  }
};

} // namespace
