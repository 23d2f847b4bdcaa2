// Analysis of a kernel's body: spans, merging of dimensions, kind, sweeps.
#include "passes/lower/kernels/KernelPlan.h"

#include "dialect/IR/ElementTypes.h"

using namespace mlir;
using namespace dtc;

SmallVector<unsigned> dtc::dimsOf(Span span) {
  SmallVector<unsigned> dims;
  for (unsigned d = 0; span >> d; ++d)
    if (span >> d & 1)
      dims.push_back(d);
  return dims;
}

SmallVector<int64_t> dtc::domainStrides(dt::IndexedOpInterface op, Span span, const KernelPlan &plan) {
  SmallVector<int64_t> strides(plan.domain.size(), 0);
  for (auto [dim, stride] : llvm::zip_equal(dimsOf(span), op.getIndexStrides()))
    strides[dim] = stride;
  return strides;
}

/// The dimensions of `span` at these positions.
static Span select(Span span, ArrayRef<int64_t> positions) {
  SmallVector<unsigned> dims = dimsOf(span);
  Span result = 0;
  for (int64_t position : positions)
    result |= Span(1) << dims[position];
  return result;
}

Span dtc::operandSpan(Operation *op, Span span, const KernelPlan &plan) {
  if (isa<dt::ReductionOpInterface>(op))
    return plan.fullSpan();
  // Most operations are elementwise; other fused ones have at most one operand over the domain.
  auto fusible = dyn_cast<dt::FusibleOpInterface>(op);
  return fusible ? select(span, *fusible.getOperandDims(0)) : span;
}

SmallVector<Value> dtc::domainOperands(Operation *op) {
  SmallVector<Value> operands;
  auto fusible = dyn_cast<dt::FusibleOpInterface>(op);
  for (OpOperand &operand : op->getOpOperands())
    if (!fusible || fusible.getOperandDims(operand.getOperandNumber()))
      operands.push_back(operand.get());
  return operands;
}

// KernelPlan

Span KernelPlan::merge(Span span) const {
  Span result = 0;
  for (unsigned d : dimsOf(span))
    if (mergedDim[d] >= 0)
      result |= Span(1) << mergedDim[d];
  return result;
}

int64_t KernelPlan::product(Span span) const {
  int64_t result = 1;
  for (unsigned d : dimsOf(span))
    result *= sizes[d];
  return result;
}

Span KernelPlan::gridSpan() const { return sizes.empty() ? 0 : ((Span(1) << (rank() - 1)) - 1) & ~reduced; }

Scope KernelPlan::scopeOf(Value value, Span span) const {
  auto ofSpan = [&](Span dims) {
    return merge(dims) == 0 ? Scope::Kernel : hasColumns(dims) ? Scope::Column : Scope::Row;
  };
  Operation *op = value.getDefiningOp();
  if (isInput(value))
    return ofSpan(span);
  if (auto indexed = dyn_cast<dt::IndexedOpInterface>(op)) {
    Span counted = 0;
    for (auto [dim, stride] : llvm::enumerate(domainStrides(indexed, span, *this)))
      counted |= Span(stride != 0) << dim;
    return ofSpan(counted);
  }
  if (isReduction(op))
    return kind == KernelKind::Columns ? Scope::Column : Scope::Row;
  if (auto known = scopes.find({value, span}); known != scopes.end())
    return known->second;
  Scope scope = Scope::Kernel;
  for (Value operand : domainOperands(op))
    scope = std::max(scope, scopeOf(operand, operandSpan(op, span, *this)));
  return scopes[{value, span}] = scope;
}

int KernelPlan::storedBefore(Value value, Span span, unsigned sweep) const {
  if (isInput(value) || !hasColumns(span))
    return -1;
  for (auto [i, output] : llvm::enumerate(outputs))
    if (output == value && outputSpans[i] == span && outputSweep[i] < sweep)
      return i;
  return -1;
}

// The analysis

namespace {

class Planner {
public:
  Planner(KernelPlan &plan, std::string &why) : plan(plan), why(why) {}

  LogicalResult run() {
    if (failed(findDomain()) || failed(assignSpans()) || failed(visitOutputs()))
      return failure();
    mergeDims();
    if (failed(chooseKind()) || failed(checkOutputs()))
      return failure();
    planSweeps();
    recordLoads();
    return success();
  }

private:
  LogicalResult fail(const Twine &reason) {
    why = reason.str();
    return failure();
  }

  LogicalResult findDomain();
  LogicalResult assignSpans();
  bool propagate(Operation *op);
  LogicalResult visitOutputs();
  LogicalResult visit(Value value, Span span);
  bool canMerge(unsigned a, unsigned b) const;
  void mergeDims();
  LogicalResult chooseKind();
  LogicalResult checkOutputs();
  unsigned levelOf(Value value);
  void planSweeps();
  void recordLoads();
  void recordLoads(Value value, Span span, unsigned sweep);

  KernelPlan &plan;
  std::string &why;
  DenseMap<Value, Span> spans; ///< the dimensions of the domain that each value spans
  DenseSet<Instance> visited;
  SmallVector<Span> addressed; ///< spans of everything in memory: inputs, outputs and results of reductions
  SmallVector<SmallVector<int64_t>> strides; ///< of numbered operations, along the domain's dimensions
  SmallVector<dt::ReductionOpInterface> reduces;
  DenseMap<Value, unsigned> levels;
  DenseSet<Instance> loadsSeen;
};

} // namespace

LogicalResult Planner::findDomain() {
  SmallVector<Value> values;
  for (Operation *op : plan.ops) {
    if (!isKernelOp(op))
      return fail("no kernel code exists for " + op->getName().getStringRef());
    llvm::append_range(values, domainOperands(op));
    llvm::append_range(values, op->getResults());
  }
  if (values.empty())
    return fail("there is nothing to compute");
  Value widest =
      *llvm::max_element(values, [](Value a, Value b) { return dt::shapeOf(a).size() < dt::shapeOf(b).size(); });
  plan.domain = SmallVector<int64_t>(dt::shapeOf(widest));
  if (plan.domain.size() > 16)
    return fail("tensors have more than 16 dimensions");
  for (Value value : values)
    if (dt::shapeOf(value).size() == plan.domain.size() && dt::shapeOf(value) != ArrayRef(plan.domain))
      return fail("tensors of the highest rank differ in shape");
  return success();
}

bool Planner::propagate(Operation *op) {
  auto spanOf = [&](Value value) -> std::optional<Span> {
    if (dt::shapeOf(value).size() == plan.domain.size())
      return plan.fullSpan();
    auto it = spans.find(value);
    return it == spans.end() ? std::nullopt : std::optional<Span>(it->second);
  };
  bool changed = false;
  auto set = [&](Value value, Span span) { changed |= spans.try_emplace(value, span).second; };
  Value result = op->getResult(0);
  if (auto reduce = dyn_cast<dt::ReductionOpInterface>(op)) {
    if (std::optional<Span> span = spanOf(op->getOperand(0)))
      set(result, *span & ~select(*span, reduce.getReducedDims()));
    return changed;
  }
  std::optional<Span> span = spanOf(result);
  for (Value operand : domainOperands(op))
    if (!span && dt::shapeOf(operand).size() == dt::shapeOf(result).size())
      span = spanOf(operand);
  if (!span)
    return false;
  set(result, *span);
  for (Value operand : domainOperands(op))
    set(operand, operandSpan(op, *span, plan));
  return changed;
}

/// Broadcasts determine their operands' spans, reductions their results', and elementwise operations pass spans on.
LogicalResult Planner::assignSpans() {
  for (bool changed = true; changed;) {
    changed = false;
    for (Operation *op : llvm::reverse(plan.ops))
      changed |= propagate(op);
    for (Operation *op : plan.ops)
      changed |= propagate(op);
  }
  for (Operation *op : plan.ops)
    if (!spans.contains(op->getResult(0)))
      return fail("a result of " + op->getName().getStringRef() + " has no place in the domain");
  return success();
}

LogicalResult Planner::visitOutputs() {
  for (Value output : plan.outputs) {
    auto it = spans.find(output);
    if (it == spans.end())
      return fail("an output has no place in the domain");
    plan.outputSpans.push_back(it->second);
    addressed.push_back(it->second);
    if (failed(visit(output, it->second)))
      return failure();
  }
  return success();
}

LogicalResult Planner::visit(Value value, Span span) {
  if (!visited.insert({value, span}).second)
    return success();
  if (plan.isInput(value)) {
    addressed.push_back(span);
    return success();
  }
  Operation *op = value.getDefiningOp();
  SmallVector<Value> overDomain = domainOperands(op);
  for (Value operand : op->getOperands())
    if (!llvm::is_contained(overDomain, operand) && !plan.isInput(operand))
      return fail("an operand that " + op->getName().getStringRef() + " reads whole is computed within the kernel");
  if (auto indexed = dyn_cast<dt::IndexedOpInterface>(op))
    strides.push_back(domainStrides(indexed, span, plan));
  if (auto reduce = dyn_cast<dt::ReductionOpInterface>(op)) {
    if (dt::shapeOf(op->getOperand(0)).size() != plan.domain.size())
      return fail("a reduction is over less than the whole domain");
    if (span != spans[value])
      return fail("a reduction's result stands along dimensions other than its own");
    reduces.push_back(reduce);
    addressed.push_back(span);
  }
  for (Value operand : overDomain)
    if (failed(visit(operand, operandSpan(op, span, plan))))
      return failure();
  return success();
}

/// Whether every value treats dimensions a and b, neighbours except for dimensions of size 1, as one.
bool Planner::canMerge(unsigned a, unsigned b) const {
  auto has = [](Span span, unsigned d) { return span >> d & 1; };
  for (Span span : addressed)
    if (has(span, a) != has(span, b))
      return false;
  return llvm::all_of(strides, [&](ArrayRef<int64_t> each) { return each[a] == each[b] * plan.domain[b]; });
}

void Planner::mergeDims() {
  plan.mergedDim.assign(plan.domain.size(), -1);
  int previous = -1;
  for (auto [d, size] : llvm::enumerate(plan.domain)) {
    if (size == 1)
      continue;
    if (previous >= 0 && canMerge(previous, d))
      plan.sizes.back() *= size;
    else
      plan.sizes.push_back(size);
    plan.mergedDim[d] = plan.sizes.size() - 1;
    previous = d;
  }
}

LogicalResult Planner::chooseKind() {
  for (dt::ReductionOpInterface reduce : reduces) {
    Span span = spans[reduce->getResult(0)], removed = plan.merge(plan.fullSpan() & ~span);
    if (removed == 0)
      continue; // only dimensions of size 1: the identity
    if (plan.reduced != 0 && plan.reduced != removed)
      return fail("reductions are over different dimensions");
    plan.reduced = removed;
    plan.reductions.push_back(reduce);
    plan.reductionSpans.push_back(span);
  }
  Span columns = plan.sizes.empty() ? 0 : Span(1) << (plan.rank() - 1);
  if (plan.rank() <= 1)
    plan.kind = KernelKind::Flat;
  else if (plan.reduced == 0 || plan.reduced == columns)
    plan.kind = KernelKind::Rows;
  else
    plan.kind = plan.reduced & columns ? KernelKind::Total : KernelKind::Columns;
  if (plan.kind == KernelKind::Columns || plan.kind == KernelKind::Total)
    for (dt::ReductionOpInterface reduce : plan.reductions)
      if (levelOf(reduce->getOperand(0)) > 0)
        return fail("a reduction over leading dimensions needs another reduction's result");
  return success();
}

LogicalResult Planner::checkOutputs() {
  Span columns = plan.sizes.empty() ? 0 : Span(1) << (plan.rank() - 1);
  Span all = plan.sizes.empty() ? 0 : columns | (columns - 1);
  for (Span domainSpan : plan.outputSpans) {
    Span span = plan.merge(domainSpan);
    bool sweeps = plan.kind == KernelKind::Flat || plan.kind == KernelKind::Rows;
    bool perElement = sweeps && span == all;
    bool perRow = sweeps && span == plan.gridSpan() && (plan.reduced != 0 || plan.kind == KernelKind::Rows);
    bool reduced = !sweeps && span == (all & ~plan.reduced);
    if (!perElement && !perRow && !reduced)
      return fail("an output spans other dimensions than the kernel's elements, rows or reduced columns");
  }
  return success();
}

/// How many reductions follow one another on the way to a value.
unsigned Planner::levelOf(Value value) {
  if (plan.isInput(value))
    return 0;
  if (auto it = levels.find(value); it != levels.end())
    return it->second;
  Operation *op = value.getDefiningOp();
  unsigned level = 0;
  for (Value operand : domainOperands(op))
    level = std::max(level, levelOf(operand));
  return levels[value] = level + plan.isReduction(op);
}

void Planner::planSweeps() {
  for (dt::ReductionOpInterface reduce : plan.reductions) {
    plan.reductionSweep.push_back(levelOf(reduce->getOperand(0)));
    plan.numSweeps = std::max(plan.numSweeps, plan.reductionSweep.back() + 1);
  }
  for (auto [output, span] : llvm::zip(plan.outputs, plan.outputSpans)) {
    plan.outputSweep.push_back(levelOf(output));
    if (plan.hasColumns(span))
      plan.numSweeps = std::max(plan.numSweeps, plan.outputSweep.back() + 1);
  }
}

void Planner::recordLoads() {
  for (unsigned sweep = 0; sweep <= plan.numSweeps; ++sweep) {
    loadsSeen.clear();
    for (auto [reduce, at] : llvm::zip(plan.reductions, plan.reductionSweep))
      if (at == sweep)
        recordLoads(reduce->getOperand(0), plan.fullSpan(), sweep);
    for (auto [output, span, at] : llvm::zip(plan.outputs, plan.outputSpans, plan.outputSweep))
      if ((plan.hasColumns(span) ? at : plan.numSweeps) == sweep)
        recordLoads(output, span, sweep);
  }
}

void Planner::recordLoads(Value value, Span span, unsigned sweep) {
  if (!loadsSeen.insert({value, span}).second)
    return;
  if (plan.isInput(value)) {
    plan.lastLoad[{value, span}] = sweep;
    return;
  }
  Operation *op = value.getDefiningOp();
  if (plan.isReduction(op) ||
      (plan.storedBefore(value, span, sweep) >= 0 && plan.scopeOf(value, span) == Scope::Column))
    return;
  for (Value operand : domainOperands(op))
    recordLoads(operand, operandSpan(op, span, plan), sweep);
}

/// The first element type among these values that the emitter does not know.
static std::optional<Type> findTypeWithoutCode(ArrayRef<Operation *> ops, ArrayRef<Value> inputs) {
  for (Value input : inputs)
    if (!hasKernelCode(input.getType()))
      return getElementTypeOrSelf(input.getType());
  for (Operation *op : ops)
    for (Type type : op->getResultTypes())
      if (!hasKernelCode(type))
        return getElementTypeOrSelf(type);
  return std::nullopt;
}

FailureOr<KernelPlan> dtc::planKernel(ArrayRef<Operation *> ops, ArrayRef<Value> inputs, ArrayRef<Value> outputs,
                                      std::string &why) {
  if (std::optional<Type> type = findTypeWithoutCode(ops, inputs)) {
    llvm::raw_string_ostream(why) << "no code is generated for " << *type
                                  << ": kernels compute on floating-point numbers, i32 and masks; convert before";
    return failure();
  }
  KernelPlan plan;
  plan.ops.assign(ops.begin(), ops.end());
  plan.inputs.assign(inputs.begin(), inputs.end());
  plan.outputs.assign(outputs.begin(), outputs.end());
  if (failed(Planner(plan, why).run()))
    return failure();
  return plan;
}

FailureOr<KernelPlan> dtc::planKernel(dt::KernelOp kernel, std::string &why) {
  SmallVector<Operation *> ops;
  for (Operation &op : kernel.getBody().front().without_terminator())
    ops.push_back(&op);
  return planKernel(ops, SmallVector<Value>(kernel.getArguments()), SmallVector<Value>(kernel.getYield().getOperands()),
                    why);
}

FailureOr<KernelPlan> dtc::planKernel(dt::KernelOp kernel) {
  std::string why;
  FailureOr<KernelPlan> plan = planKernel(kernel, why);
  if (failed(plan))
    kernel.emitOpError("cannot be compiled: ") << why;
  return plan;
}

bool dtc::canShareKernel(ArrayRef<Operation *> ops, ArrayRef<Value> outputs, std::string *why) {
  DenseSet<Operation *> inside(ops.begin(), ops.end());
  SetVector<Value> inputs;
  for (Operation *op : ops)
    for (Value operand : op->getOperands())
      if (!inside.contains(operand.getDefiningOp()))
        inputs.insert(operand);
  std::string reason;
  bool possible = succeeded(planKernel(ops, inputs.getArrayRef(), outputs, reason));
  if (why)
    *why = reason;
  return possible;
}
