// dt-propagate: annotated placements spread along factors.
#include "dialect/IR/Names.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Threading.h"
#include "passes/place/Attributes.h"
#include "passes/place/Boundary.h"
#include "passes/place/Iteration.h"
#include "passes/place/Passes.h"

#include "llvm/ADT/Sequence.h"

#include <deque>

namespace dtc {
#define GEN_PASS_DEF_PROPAGATE
#include "passes/place/Passes.h.inc"
} // namespace dtc

using namespace mlir;
using namespace mlir::dt;
using namespace dtc;

namespace {

/// What is known of a value's placement.
struct ValueState {
  Value value;
  Placement placement;
  SmallVector<unsigned, 3> nodes; ///< numbers of the nodes that make and read it
  bool closed = false;            ///< annotated in full: nothing may be added
};

/// An operation's factors and how they are split up to now.
struct Node {
  Node(Operation *op, const Loops &loops) : op(op), iteration(loops) {}

  Operation *op;
  Iteration iteration;
  SmallVector<ValueState *, 4> operands, results;
  AtomMask used = 0;
  AtomMask contended = 0; ///< atoms wanted by a second factor, reported once
};

/// How the caches that a function takes are placed, by argument number.
using CachePlacements = SmallVector<std::pair<unsigned, ShardingAttr>>;

/// Propagation within one function.
class Propagation {
public:
  Propagation(func::FuncOp function, const AxisTable &axes, LoopTable &loops)
      : function(function), axes(axes), loops(loops) {}

  /// After propagation: caches are placed as the operations that compute with them want. Strategies do not name them.
  CachePlacements placeCaches() {
    CachePlacements placed;
    for (BlockArgument argument : function.getArguments())
      if (PortAttr port = portOf(argument); port && port.getKind() == PortKind::Cache)
        placed.push_back({argument.getArgNumber(), axes.shardingOf(stateOf(argument).placement)});
    return placed;
  }

  LogicalResult run() {
    if (failed(build()))
      return failure();
    seedParameters();
    spread();
    seedOthers();
    spread();
    seedTags();
    spread();
    record();
    return success();
  }

private:
  LogicalResult build() {
    size_t size = function.front().getOperations().size();
    nodes.reserve(size);
    stateIn.reserve(size + function.getNumArguments());
    for (BlockArgument argument : function.getArguments())
      addState(argument);
    for (Operation &op : function.front().without_terminator()) {
      auto factorOp = dyn_cast<FactorOpInterface>(op);
      if (!factorOp)
        return op.emitOpError("has no FactorOpInterface: it cannot be placed on a mesh");
      auto number = static_cast<unsigned>(nodes.size());
      Node &node = nodes.emplace_back(&op, loops.of(factorOp));
      for (Value operand : op.getOperands())
        node.operands.push_back(&stateOf(operand));
      for (Value result : op.getResults())
        node.results.push_back(&addState(result));
      for (ValueState *state : llvm::concat<ValueState *>(node.operands, node.results))
        state->nodes.push_back(number);
    }
    dirty.assign(nodes.size(), false);
    return success();
  }

  // Seeds

  void seedParameters() {
    llvm::DenseMap<Attribute, Placement> byName;
    for (BlockArgument argument : function.getArguments()) {
      unsigned i = argument.getArgNumber();
      PortAttr port = argumentPort(function, i);
      if (!port || !port.isPlaced() || port.getKind() != PortKind::Parameter)
        continue;
      seed(argument, port.getStored(), /*close=*/true);
      for (Operation *user : argument.getUsers())
        seedReshard(user);
      byName[port.getName()] = axes.placementOf(port.getComputed());
    }
    // The gradient of a parameter is best placed like the parameter.
    auto terminator = function.front().getTerminator();
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      if (PortAttr port = resultPort(function, i); port && port.getKind() == PortKind::Gradient)
        if (auto found = byName.find(port.getName()); found != byName.end())
          extend(stateOf(terminator->getOperand(i)), found->second);
  }

  void seedOthers() {
    for (BlockArgument argument : function.getArguments())
      if (PortAttr port = argumentPort(function, argument.getArgNumber()); port && port.isPlaced())
        seed(argument, port.getStored(), /*close=*/true);
    auto terminator = function.front().getTerminator();
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      if (PortAttr port = resultPort(function, i); port && port.isPlaced())
        seed(terminator->getOperand(i), port.getStored(), /*close=*/false);
    for (Node &node : nodes)
      seedReshard(node.op);
  }

  void seedReshard(Operation *op) {
    if (auto reshard = dyn_cast<ReshardOp>(op))
      seed(reshard.getResult(), reshard.getSharding(), /*close=*/true);
  }

  /// A tag's annotation names some dimensions; the others stay open.
  void seedTags() {
    for (Node &node : nodes)
      if (auto tag = dyn_cast<TagOp>(node.op); tag && tag.getShardingAttr())
        seed(tag.getResult(), tag.getShardingAttr(), /*close=*/false);
    for (Node &node : nodes)
      if (auto tag = dyn_cast<TagOp>(node.op); tag && tag.getShardingAttr())
        for (auto [has, wants] :
             llvm::zip_equal(stateOf(tag.getResult()).placement.dims, axes.placementOf(tag.getShardingAttr()).dims))
          if (maskOf(wants) & ~maskOf(has))
            tag.emitRemark() << "cannot be split over " << axes.name(wants) << ": its axes are taken already";
  }

  void seed(Value value, ShardingAttr sharding, bool close) {
    ValueState &state = stateOf(value);
    if (state.closed)
      return;
    extend(state, axes.placementOf(sharding));
    state.closed = close;
  }

  // Spreading

  /// Sweeps forward and backward in turn over what has changed; each sweep is linear, and there are as many as turns on
  /// the longest path that a placement travels.
  void spread() {
    for (bool forward = true; dirtyCount > 0; forward = !forward) {
      auto visit = [&](size_t number) {
        if (!dirty[number])
          return;
        dirty[number] = false;
        --dirtyCount;
        update(nodes[number]);
      };
      auto numbers = llvm::seq<size_t>(0, nodes.size());
      if (forward)
        llvm::for_each(numbers, visit);
      else
        llvm::for_each(llvm::reverse(numbers), visit);
    }
  }

  /// Factors take axes from the operands and results that have them, then give them to those that lack them.
  void update(Node &node) {
    const FactorRule &rule = node.iteration.rule;
    for (auto [state, dims] : llvm::zip_equal(node.operands, rule.operands))
      take(node, *state, dims);
    for (auto [state, dims] : llvm::zip_equal(node.results, rule.results))
      take(node, *state, dims);
    for (auto [state, dims] : llvm::zip_equal(node.operands, rule.operands))
      give(node, *state, dims);
    for (auto [state, dims] : llvm::zip_equal(node.results, rule.results))
      give(node, *state, dims);
  }

  void give(const Node &node, ValueState &state, const DimFactors &dims) {
    extend(state, [&](size_t dim) {
      return dims[dim].empty() ? ArrayRef<int>() : ArrayRef<int>(node.iteration.atoms[dims[dim].front()]);
    });
  }

  void take(Node &node, const ValueState &state, const DimFactors &dims) {
    for (auto [list, factors] : llvm::zip_equal(state.placement.dims, dims))
      if (!list.empty() && !factors.empty() && node.iteration.canSplit[factors.front()])
        takeInto(node, factors.front(), list);
  }

  void takeInto(Node &node, int factor, ArrayRef<int> wanted) {
    AtomList &has = node.iteration.atoms[factor];
    if (wanted.size() <= has.size() || !llvm::equal(has, wanted.take_front(has.size())))
      return; // nothing new, or already split in another way
    for (int atom : wanted.drop_front(has.size())) {
      AtomMask bit = AtomMask(1) << atom;
      if (node.used & bit) {
        remarkContention(node, atom);
        return;
      }
      int64_t shards = axes.product(has) * axes.sizeOf(atom);
      if (node.iteration.mustDivide[factor] && node.iteration.rule.factors[factor].size % shards != 0)
        return;
      has.push_back(atom);
      node.used |= bit;
    }
  }

  void remarkContention(Node &node, int atom) {
    AtomMask bit = AtomMask(1) << atom;
    if (node.contended & bit)
      return;
    node.contended |= bit;
    if (!remarked.insert({node.op->getName().getAsOpaquePointer(), atom}).second)
      return;
    node.op->emitRemark() << "axis " << axes.name(bit)
                          << " is wanted along two dimensions; the earlier one keeps it (reported once for each kind "
                             "of operation in a function)";
  }

  void extend(ValueState &state, const Placement &wanted) {
    extend(state, [&](size_t dim) { return ArrayRef<int>(wanted.dims[dim]); });
  }

  /// Adds axes to an open value where it has a prefix of them and no other dimension uses them. `wanted` gives the axes
  /// of a dimension.
  template <typename Wanted> void extend(ValueState &state, Wanted wanted) {
    if (state.closed)
      return;
    bool changed = false;
    AtomMask used = state.placement.splitMask();
    for (auto [dim, has] : llvm::enumerate(state.placement.dims)) {
      ArrayRef<int> wants = wanted(dim);
      if (wants.size() <= has.size() || !llvm::equal(has, wants.take_front(has.size())))
        continue;
      if (isFree(state.value))
        return;
      for (int atom : wants.drop_front(has.size())) {
        AtomMask bit = AtomMask(1) << atom;
        if (used & bit)
          break;
        has.push_back(atom);
        used |= bit;
        changed = true;
      }
    }
    if (changed)
      for (unsigned number : state.nodes)
        mark(number);
  }

  /// A value without operands is built again wherever it is needed: users that share it do not place each other.
  static bool isFree(Value value) {
    Operation *producer = value.getDefiningOp();
    return producer && producer->getNumOperands() == 0;
  }

  void mark(unsigned number) {
    if (dirty[number])
      return;
    dirty[number] = true;
    ++dirtyCount;
  }

  void record() {
    PlacementAttributes attributes(function.getContext());
    llvm::DenseMap<Attribute, ArrayAttr> lists; // of one sharding, which most operations have
    ArrayAttr several;
    Placement iteration;
    SmallVector<Attribute> shardings;
    for (Node &node : nodes) {
      iteration.dims.assign(node.iteration.atoms.begin(), node.iteration.atoms.end());
      shardings.clear();
      for (ValueState *state : node.results)
        shardings.push_back(axes.shardingOf(state->placement));
      ArrayAttr &known = shardings.size() == 1 ? lists[shardings.front()] : several;
      if (!known || shardings.size() != 1)
        known = ArrayAttr::get(function.getContext(), shardings);
      attributes.put(node.op, axes.shardingOf(iteration), known);
    }
  }

  ValueState &addState(Value value) {
    int64_t rank = cast<RankedTensorType>(value.getType()).getRank();
    return *(stateIn[value] = &states.emplace_back(ValueState{value, Placement::replicated(rank), {}}));
  }
  ValueState &stateOf(Value value) { return *stateIn.find(value)->second; }

  func::FuncOp function;
  const AxisTable &axes;
  LoopTable &loops;
  std::deque<ValueState> states; ///< whose addresses stay the same as it grows
  llvm::DenseMap<Value, ValueState *> stateIn;
  std::vector<Node> nodes;
  std::vector<char> dirty; ///< for each node, whether it must be looked at again
  llvm::DenseSet<std::pair<const void *, int>> remarked;
  int64_t dirtyCount = 0;
};

class PropagatePass : public dtc::impl::PropagateBase<PropagatePass> {
public:
  using PropagateBase::PropagateBase;

  void runOnOperation() override {
    FailureOr<AxisTable> axes = AxisTable::ofModule(getOperation());
    if (failed(axes))
      return signalPassFailure();
    auto functions = llvm::filter_to_vector(getOperation().getOps<func::FuncOp>(),
                                            [](func::FuncOp function) { return !function.isDeclaration(); });
    std::vector<CachePlacements> caches(functions.size());
    auto place = [&](size_t number) {
      AxisTable ownAxes = *axes; // which caches its answers
      LoopTable loops;
      Propagation propagation(functions[number], ownAxes, loops);
      LogicalResult result = propagation.run();
      if (succeeded(result))
        caches[number] = propagation.placeCaches();
      return result;
    };
    if (failed(failableParallelForEachN(&getContext(), 0, functions.size(), place)))
      return signalPassFailure();
    Boundary::Written written;
    llvm::DenseMap<PortIdentity, PortAttr> placed;
    for (auto [function, ofFunction] : llvm::zip_equal(functions, caches))
      if (!ofFunction.empty())
        writeCaches(function, ofFunction, placed, written);
  }

private:
  /// A cache is placed alike in all functions: as in the first that has it.
  static void writeCaches(func::FuncOp function, const CachePlacements &caches,
                          llvm::DenseMap<PortIdentity, PortAttr> &placed, Boundary::Written &written) {
    Boundary boundary(function);
    for (auto [index, sharding] : caches) {
      PortAttr &port = boundary.arguments[index];
      auto type = cast<RankedTensorType>(function.getArgumentTypes()[index]);
      port = placed.try_emplace(port.identity(), port.placedAs(sharding, type)).first->second;
    }
    for (PortAttr &port : boundary.results)
      if (auto found = placed.find(port.identity()); found != placed.end())
        port = found->second;
    boundary.write(written);
  }
};
} // namespace
