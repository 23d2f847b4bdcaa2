// dt-annotate: a strategy becomes placements on arguments, results and tags.
#include "dialect/IR/Names.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Threading.h"
#include "passes/place/Boundary.h"
#include "passes/place/Passes.h"
#include "passes/place/Presets.h"
#include "passes/place/Section.h"
#include "llvm/ADT/StringExtras.h"

#include <array>
#include <deque>
#include <set>

namespace dtc {
#define GEN_PASS_DEF_ANNOTATE
#include "passes/place/Passes.h.inc"
} // namespace dtc

using namespace mlir;
using namespace mlir::dt;
using namespace dtc;

namespace {

SmallVector<StringRef> stringsOf(ArrayAttr array) {
  SmallVector<StringRef> strings;
  if (array)
    for (Attribute element : array)
      strings.push_back(cast<StringAttr>(element).getValue());
  return strings;
}

/// All sections of a strategy.
struct Sections {
  Sections(const Annotations &strategy, MeshAttr mesh, ErrorCallback error)
      : parameters(Section::create("parameters", "parameter", strategy.parameters, mesh, error)),
        tags(Section::create("tags", "tag", strategy.tags, mesh, error)),
        inputs(Section::create("inputs", "input", strategy.inputs, mesh, error)),
        storage(Section::create("storage", "parameter", strategy.storage, mesh, error)),
        slots(Section::create("slots", "parameter", strategy.slots, mesh, error)),
        gradients(Section::create("gradients", "parameter", strategy.gradients, mesh, error)) {}

  bool areValid() const {
    return llvm::all_of(all(), [](const FailureOr<Section> *section) { return succeeded(*section); });
  }
  LogicalResult checkAllUsed(ErrorCallback error) const {
    for (const FailureOr<Section> *section : all())
      if (failed((*section)->checkAllUsed(error)))
        return failure();
    return success();
  }

  FailureOr<Section> parameters, tags, inputs, storage, slots, gradients;

private:
  std::array<const FailureOr<Section> *, 6> all() const {
    return {&parameters, &tags, &inputs, &storage, &slots, &gradients};
  }
};

/// How a parameter and what belongs to it lies.
struct ParameterPlacement {
  ShardingAttr computed; ///< in forward and backward passes
  ShardingAttr stored;   ///< between functions
  ShardingAttr updated;  ///< where it is updated: its slots and reduced gradient
  ShardingAttr gradient; ///< where its gradient is added up; null: as it appears
  ArrayAttr dims;        ///< the names of its dimensions
};

class AnnotatePass : public dtc::impl::AnnotateBase<AnnotatePass> {
public:
  using AnnotateBase::AnnotateBase;

  void runOnOperation() override {
    if (failed(readMesh()) || failed(readParameters()) || failed(placeAll()))
      signalPassFailure();
  }

private:
  void fail(const Twine &message) { getOperation().emitError(message); }

  LogicalResult readMesh() {
    meshAttr = getOperation()->getAttrOfType<MeshAttr>(module_attr::mesh);
    if (!mesh.empty() || !meshAttr) {
      FailureOr<MeshAttr> parsed = parseMesh(&getContext(), mesh, [&](const Twine &message) { fail(message); });
      if (failed(parsed))
        return failure();
      meshAttr = *parsed;
    }
    getOperation()->setAttr(module_attr::mesh, meshAttr);
    return success();
  }

  LogicalResult readParameters() {
    if (auto list = getOperation()->getAttrOfType<ArrayAttr>(module_attr::parameters))
      llvm::append_range(parameters, list.getAsRange<ParamAttr>());
    return success();
  }

  LogicalResult placeAll() {
    auto error = [&](const Twine &message) { fail(message); };
    FailureOr<Annotations> strategyOr = loadStrategy(strategy, meshAttr, parameters, error, strategyText);
    if (failed(strategyOr) || (!entry.empty() && failed(addEntry(*strategyOr, entry, meshAttr, error))))
      return failure();
    Sections sections(*strategyOr, meshAttr, error);
    if (!sections.areValid() || failed(placeParameters(sections)) || failed(placeFunctions(sections)) ||
        failed(sections.checkAllUsed(error)))
      return failure();
    if (!strategyOr->layers.empty())
      getOperation()->setAttr(module_attr::stageLayers, DenseI64ArrayAttr::get(&getContext(), strategyOr->layers));
    return checkAxesSplit(*strategyOr);
  }

  LogicalResult placeParameters(Sections &sections) {
    for (ParamAttr parameter : parameters) {
      SmallVector<StringRef> dims =
          llvm::map_to_vector(parameter.getDimNames(), [](StringAttr s) { return s.getValue(); });
      SmallVector<int64_t> shape = parameter.getLogicalShape();
      ParameterPlacement &placement = placements[parameter.getName()];
      placement.computed = sections.parameters->place(parameter.getName(), dims);
      if (!placement.computed)
        placement.computed = ShardingAttr::replicated(&getContext(), dims.size());
      auto further = [&](FailureOr<Section> &section, ShardingAttr otherwise) {
        ShardingAttr placed = section->placeFurther(parameter.getName(), dims, shape, placement.computed);
        return placed ? placed : otherwise;
      };
      placement.stored = further(sections.storage, placement.computed);
      placement.updated = further(sections.slots, placement.stored);
      placement.gradient = further(sections.gradients, {});
      placement.dims = Builder(&getContext()).getStrArrayAttr(dims);
      StringAttr name = parameter.getName();
      auto isPossible = [&](ShardingAttr each, const Section *further) {
        auto why = [&] { return sections.parameters->describe(name) + (further ? further->describe(name) : ""); };
        return !each || succeeded(check(each, shape, name, getOperation(), why));
      };
      if (!isPossible(placement.computed, nullptr) || !isPossible(placement.stored, &*sections.storage) ||
          !isPossible(placement.updated, &*sections.slots) || !isPossible(placement.gradient, &*sections.gradients))
        return failure();
      tellIdle(placement.computed, shape, dims);
    }
    return success();
  }

  LogicalResult placeFunctions(Sections &sections) {
    std::deque<Boundary> boundaries;
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      Boundary &boundary = boundaries.emplace_back(function);
      if (failed(placeArguments(function, boundary, *sections.inputs)) || failed(placeResults(function, boundary)) ||
          failed(placeTags(function, *sections.tags)))
        return failure();
    }
    Placed known;
    for (Boundary &boundary : boundaries)
      if (failed(placeState(boundary, known)))
        return failure();
    return success();
  }

  /// Pieces of a dimension are as long as the first, so the last may be empty: the ranks that have these do nothing
  /// where the dimension is computed with.
  void tellIdle(ShardingAttr sharding, ArrayRef<int64_t> shape, ArrayRef<StringRef> dims) {
    for (auto [dim, size] : llvm::enumerate(shape)) {
      int64_t shards = sharding.getNumShards(dim, meshAttr), idle = shards - filledPieces(size, shards);
      if (idle == 0 || dim >= dims.size() || !toldIdle.insert({dims[dim], size, shards}).second)
        continue;
      constexpr int64_t percent = 100;
      getOperation().emitWarning("dimension '")
          << dims[dim] << "' of size " << size << " is split over " << shards << " ranks: " << idle << " of them ("
          << percent * idle / shards << " %) hold no part of it and are idle wherever it is used";
    }
  }

  static int64_t filledPieces(int64_t size, int64_t shards) {
    return size == 0 ? 0 : llvm::divideCeil(size, llvm::divideCeil(size, shards));
  }

  /// The last rank has the last piece of everything: where that is empty, of all that an axis splits, the axis is too
  /// long for the model.
  LogicalResult checkAxisUsed(AxisAttr axis) {
    if (reaching.contains(axis.getName()))
      return success();
    fail("axis '" + axis.getName().getValue() + "' of the mesh has " + Twine(axis.getSize()) +
         " ranks, and the last of them would hold no part of anything that it splits; make it shorter");
    return failure();
  }

  /// An axis that splits nothing makes all its ranks repeat the same work: most often its name is a slip.
  LogicalResult checkAxesSplit(const Annotations &annotations) {
    SmallVector<StringRef> missing;
    for (StringRef axis : annotations.axes)
      if (!meshAttr.getAxisSize(axis))
        missing.push_back(axis);
    for (AxisAttr axis : meshAttr.getAxes()) {
      if (axis.getSize() == 1 || axis.getName() == pipelineAxis) // which dt-cut splits the layers over
        continue;
      if (splitting.contains(axis.getName())) {
        if (failed(checkAxisUsed(axis)))
          return failure();
        continue;
      }
      std::string advice = adviceOnAxis(axis.getName());
      fail("axis '" + axis.getName().getValue() + "' of the mesh splits nothing under strategy '" + strategy +
           "': its " + Twine(axis.getSize()) + " ranks would all repeat the same work; " +
           (annotations.axes.empty() ? "the strategy names no axes"
                                     : "the strategy's axes are " + llvm::join(annotations.axes, ", ")) +
           (advice.empty() ? suggest(axis.getName(), missing) + ". Rename the axis or leave it out" : "; " + advice));
      return failure();
    }
    return success();
  }

  LogicalResult placeArguments(func::FuncOp function, Boundary &boundary, Section &inputs) {
    for (BlockArgument argument : function.getArguments()) {
      unsigned i = argument.getArgNumber();
      PortAttr &port = boundary.arguments[i];
      auto type = cast<RankedTensorType>(argument.getType());
      if (!port)
        return function.emitError() << "argument " << i << " lacks " << portAttr;
      if (port.getKind() == PortKind::Input) {
        SmallVector<StringRef> dims = stringsOf(boundary.dims[i]);
        ShardingAttr sharding = dims.empty() ? ShardingAttr() : inputs.place(port.getName(), dims);
        if (!sharding)
          sharding = ShardingAttr::replicated(&getContext(), type.getRank());
        auto why = [&] { return inputs.describe(port.getName()); };
        if (failed(check(sharding, type.getShape(), port.getName(), function, why)) ||
            failed(checkDivides(sharding, type, port, dims, function)))
          return failure();
        port = port.placedAs(sharding, type);
      } else if (port.getKind() == PortKind::Output) { // of an earlier function
        port = port.placedAs(ShardingAttr::replicated(&getContext(), type.getRank()), type);
      }
    }
    return success();
  }

  /// Outputs are whole. Shares leave as partitioning finds them.
  LogicalResult placeResults(func::FuncOp function, Boundary &boundary) {
    for (auto [i, port] : llvm::enumerate(boundary.results)) {
      if (!port)
        return function.emitError() << "result " << i << " lacks " << portAttr;
      auto type = cast<RankedTensorType>(function.getResultTypes()[i]);
      if (port.getKind() == PortKind::Output)
        port = port.placedAs(ShardingAttr::replicated(&getContext(), type.getRank()), type);
    }
    return success();
  }

  /// A port as it was, and its type; and as it is placed.
  using PlacedPorts = DenseMap<std::pair<PortAttr, Type>, PortAttr>;

  /// What has been made for one function and serves others, which have the same ports.
  struct Placed {
    PlacedPorts ports[2]; ///< where state is updated, and elsewhere
    Boundary::Written written;
  };

  /// Places what belongs to parameters, by far the most, and writes all ports of a function. State comes back as it
  /// went in.
  LogicalResult placeState(Boundary &boundary, Placed &known) const {
    bool updating = updates(boundary);
    auto &ports = known.ports[updating];
    func::FuncOp function = boundary.function;
    for (auto [port, type, dims] : llvm::zip_equal(boundary.arguments, function.getArgumentTypes(), boundary.dims))
      if (port.isOfParameter()) {
        if (failed(placeParameter(port, type, updating, function, ports)))
          return failure();
        dims = placements.lookup(port.getName()).dims;
      }
    for (auto [port, type] : llvm::zip_equal(boundary.results, function.getResultTypes()))
      if (port.isOfParameter() && failed(placeParameter(port, type, updating, function, ports)))
        return failure();
    boundary.write(known.written);
    return success();
  }

  static bool updates(const Boundary &boundary) {
    return llvm::any_of(boundary.results, [](PortAttr port) { return port && port.isState(); });
  }

  /// Where state is updated it is computed with as the optimizer's slots lie; elsewhere as [parameters] says. Gradients
  /// without a placement of their own stay as partitioning finds them.
  LogicalResult placeParameter(PortAttr &port, Type type, bool updates, func::FuncOp function,
                               PlacedPorts &known) const {
    PortAttr &placed = known[{port, type}];
    if (!placed) {
      placed = port;
      if (failed(placeAnew(placed, cast<RankedTensorType>(type), updates, function)))
        return failure();
    }
    port = placed;
    return success();
  }

  LogicalResult placeAnew(PortAttr &port, RankedTensorType type, bool updates, func::FuncOp function) const {
    auto found = placements.find(port.getName());
    if (found == placements.end())
      return function.emitError() << "(" << port.describe() << ") is of no parameter in " << module_attr::parameters;
    const ParameterPlacement &placement = found->second;
    if (port.getKind() == PortKind::Parameter)
      port = port.placedAs(updates ? placement.updated : placement.computed, placement.stored, type);
    else if (port.getKind() != PortKind::Gradient)
      port = port.placedAs(placement.updated, type);
    else if (placement.gradient)
      port = port.withPartial(false).placedAs(placement.computed, placement.gradient, type);
    return success();
  }

  LogicalResult placeTags(func::FuncOp function, Section &tags) {
    LogicalResult result = success();
    function.walk([&](TagOp tag) {
      SmallVector<StringRef> dims = stringsOf(tag.getDimNames());
      ShardingAttr sharding = tags.place(tag.getName(), dims);
      if (!sharding || sharding.isReplicated())
        return;
      auto why = [&] { return tags.describe(tag.getName()); };
      if (failed(check(sharding, tag.getType().getShape(), tag.getNameAttr(), tag, why)))
        result = failure();
      tellIdle(sharding, tag.getType().getShape(), dims);
      tag.setShardingAttr(sharding);
    });
    return result;
  }

  /// `why` says who placed it so, as Section::describe does.
  LogicalResult check(ShardingAttr sharding, ArrayRef<int64_t> shape, StringAttr name, Operation *op,
                      function_ref<std::string()> why) {
    if (std::optional<std::string> problem = sharding.findProblem(shape.size(), meshAttr))
      return op->emitError() << "the strategy cannot place '" << name.getValue() << "': " << *problem << why();
    bool reachesLast = true;
    for (auto [dim, size] : llvm::enumerate(shape)) {
      int64_t shards = sharding.getNumShards(dim, meshAttr);
      reachesLast &= filledPieces(size, shards) == shards;
    }
    for (int64_t dim = 0; dim < sharding.getRank(); ++dim)
      for (AxisRefAttr axis : sharding.getDimAxes(dim)) {
        splitting.insert(axis.getAxis());
        if (reachesLast)
          reaching.insert(axis.getAxis());
      }
    return success();
  }

  /// What the host feeds is cut into equal pieces: there is no padding sample.
  LogicalResult checkDivides(ShardingAttr sharding, RankedTensorType type, PortAttr port, ArrayRef<StringRef> dims,
                             Operation *op) {
    for (auto [dim, size] : llvm::enumerate(type.getShape()))
      if (int64_t shards = sharding.getNumShards(dim, meshAttr); size % shards != 0)
        return op->emitError() << port.describe() << ": dimension " << dims[dim] << " of size " << size
                               << " does not divide over " << shards << " ranks; change the "
                               << (dims[dim] == "sequence" ? "sequence length" : "batch") << " or the mesh";
    return success();
  }

  MeshAttr meshAttr;
  SmallVector<ParamAttr> parameters;
  llvm::DenseMap<StringAttr, ParameterPlacement> placements;
  llvm::DenseSet<StringAttr> splitting; ///< axes that some placement names
  llvm::DenseSet<StringAttr> reaching;  ///< those by which something is split of which the last rank has a part
  std::set<std::tuple<StringRef, int64_t, int64_t>> toldIdle; ///< dimension, its size, pieces
};
} // namespace
