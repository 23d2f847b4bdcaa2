// dt-annotate: a strategy becomes placements on arguments, results and tags.
#include "dialect/IR/Roles.h"
#include "mlir/IR/BuiltinOps.h"
#include "passes/place/Annotations.h"
#include "passes/place/Boundary.h"
#include "passes/place/Passes.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/GlobPattern.h"

namespace dtc {
#define GEN_PASS_DEF_ANNOTATE
#include "passes/place/Passes.h.inc"
} // namespace dtc

using namespace mlir;
using namespace mlir::dt;
using namespace dtc;

namespace {

/// The placements that one section of a strategy gives to named values with named dimensions.
class Section {
public:
  /// Fails with an error when an entry's pattern is malformed or names an axis that the mesh lacks.
  static FailureOr<Section> create(StringRef kind, ArrayRef<DimAnnotation> entries, MeshAttr mesh,
                                   ErrorCallback error) {
    Section section;
    section.kind = kind;
    section.mesh = mesh;
    for (const DimAnnotation &entry : entries) {
      auto inFile = [&](const Twine &message) { error(entry.where + ": " + message); };
      auto pattern = llvm::GlobPattern::create(entry.pattern);
      if (!pattern) {
        inFile("pattern '" + entry.pattern + "': " + llvm::toString(pattern.takeError()));
        return failure();
      }
      Entry parsed{std::move(*pattern), &entry, {}, {}, false};
      for (const auto &[dim, axes] : entry.dims) {
        SmallVector<AxisRefAttr> &refs = parsed.dims.emplace_back(dim, SmallVector<AxisRefAttr>()).second;
        for (StringRef axis : axes) {
          FailureOr<AxisRefAttr> ref = parseAxis(mesh, axis, inFile);
          if (failed(ref))
            return failure();
          refs.push_back(*ref);
        }
      }
      parsed.dimFound.assign(parsed.dims.size(), false);
      section.entries.push_back(std::move(parsed));
    }
    return section;
  }

  /// Placement of the value `name`; later entries override earlier ones dimension by dimension.
  ShardingAttr place(StringRef name, ArrayRef<StringRef> dims) {
    names.insert(name);
    for (StringRef dim : dims)
      dimNames.insert(dim);
    SmallVector<SmallVector<AxisRefAttr>> placed(dims.size());
    for (Entry &entry : entries) {
      if (!entry.pattern.match(name))
        continue;
      entry.matched = true;
      for (auto [i, annotation] : llvm::enumerate(entry.dims))
        for (auto [dim, axes] : llvm::zip_equal(dims, placed))
          if (dim == annotation.first) {
            axes = annotation.second;
            entry.dimFound[i] = true;
          }
    }
    return ShardingAttr::get(mesh.getContext(), placed);
  }

  /// After all values have been placed: entries that named something which does not exist.
  LogicalResult checkAllUsed(ErrorCallback error) const {
    for (const Entry &entry : entries) {
      const DimAnnotation &source = *entry.source;
      if (!source.required)
        continue;
      if (!entry.matched) {
        error(source.where + ": no " + kind + " is named '" + source.pattern + "'" +
              suggest(source.pattern, names.getArrayRef()));
        return failure();
      }
      for (auto [found, dim] : llvm::zip_equal(entry.dimFound, source.dims))
        if (!found) {
          error(source.where + ": what '" + source.pattern + "' matches has no dimension '" + dim.first + "'" +
                suggest(dim.first, dimNames.getArrayRef()));
          return failure();
        }
    }
    return success();
  }

private:
  struct Entry {
    llvm::GlobPattern pattern;
    const DimAnnotation *source;
    SmallVector<std::pair<StringRef, SmallVector<AxisRefAttr>>> dims;
    SmallVector<bool> dimFound;
    bool matched;
  };
  StringRef kind;
  MeshAttr mesh;
  std::vector<Entry> entries;
  llvm::SetVector<StringRef> names, dimNames;
};

SmallVector<StringRef> stringsOf(ArrayAttr array) {
  SmallVector<StringRef> strings;
  if (array)
    for (Attribute element : array)
      strings.push_back(cast<StringAttr>(element).getValue());
  return strings;
}

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
      for (ParamAttr parameter : list.getAsRange<ParamAttr>()) {
        parameters.push_back(parameter);
        byName[parameter.getName()] = parameter;
      }
    return success();
  }

  LogicalResult placeAll() {
    auto error = [&](const Twine &message) { fail(message); };
    FailureOr<Annotations> strategyOr = loadStrategy(strategy, meshAttr, parameters, error);
    if (failed(strategyOr))
      return failure();
    FailureOr<Section> parameterSection = Section::create("parameter", strategyOr->parameters, meshAttr, error);
    FailureOr<Section> tagSection = Section::create("tag", strategyOr->tags, meshAttr, error);
    FailureOr<Section> inputSection = Section::create("input", strategyOr->inputs, meshAttr, error);
    if (failed(parameterSection) || failed(tagSection) || failed(inputSection))
      return failure();
    for (ParamAttr parameter : parameters) {
      SmallVector<StringRef> dims =
          llvm::map_to_vector(parameter.getDimNames(), [](StringAttr s) { return s.getValue(); });
      placements[parameter.getName()] = parameterSection->place(parameter.getName(), dims);
    }
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      BoundaryAttributes boundary(function);
      if (failed(placeArguments(function, boundary, *inputSection)) || failed(placeResults(function, boundary)) ||
          failed(placeTags(function, *tagSection)))
        return failure();
      boundary.write();
    }
    return success(succeeded(parameterSection->checkAllUsed(error)) && succeeded(tagSection->checkAllUsed(error)) &&
                   succeeded(inputSection->checkAllUsed(error)) && succeeded(checkAxesSplit(*strategyOr)));
  }

  /// An axis that splits nothing makes all its ranks repeat the same work: most often its name is a slip.
  LogicalResult checkAxesSplit(const Annotations &annotations) {
    SmallVector<StringRef> missing;
    for (StringRef axis : annotations.axes)
      if (!meshAttr.getAxisSize(axis))
        missing.push_back(axis);
    for (AxisAttr axis : meshAttr.getAxes()) {
      if (axis.getSize() == 1 || splitting.contains(axis.getName()))
        continue;
      fail("axis '" + axis.getName().getValue() + "' of the mesh splits nothing under strategy '" + strategy +
           "': its " + Twine(axis.getSize()) + " ranks would all repeat the same work; " +
           (annotations.axes.empty() ? "the strategy names no axes"
                                     : "the strategy's axes are " + llvm::join(annotations.axes, ", ")) +
           suggest(axis.getName(), missing) + ". Rename the axis or leave it out");
      return failure();
    }
    return success();
  }

  LogicalResult placeArguments(func::FuncOp function, BoundaryAttributes &boundary, Section &inputs) {
    for (BlockArgument argument : function.getArguments()) {
      unsigned i = argument.getArgNumber();
      auto roleName = function.getArgAttrOfType<StringAttr>(i, roleAttr);
      auto name = function.getArgAttrOfType<StringAttr>(i, nameAttr);
      if (!roleName || !name)
        return function.emitError() << "argument " << i << " lacks " << roleAttr << " or " << nameAttr;
      auto type = cast<RankedTensorType>(argument.getType());
      if (isState(roleName)) {
        auto found = placements.find(name);
        if (found == placements.end())
          return function.emitError() << "argument " << i << " (" << roleName << " " << name
                                      << ") is of no parameter in " << module_attr::parameters;
        if (failed(check(found->second, type, name, function)))
          return failure();
        boundary.arguments[i].set(dimsAttr, Builder(&getContext()).getStrArrayAttr(dimNamesOf(name)));
        boundary.arguments[i].set(shardingAttr, found->second);
        boundary.arguments[i].set(storageAttr, found->second);
      } else if (roleName == role::input) {
        SmallVector<StringRef> dims = stringsOf(function.getArgAttrOfType<ArrayAttr>(i, dimsAttr));
        ShardingAttr sharding =
            dims.empty() ? ShardingAttr::replicated(&getContext(), type.getRank()) : inputs.place(name, dims);
        if (failed(check(sharding, type, name, function)) || failed(checkDivides(sharding, type, name, dims, function)))
          return failure();
        boundary.arguments[i].set(shardingAttr, sharding);
      } else if (roleName == role::output && !isShare(name)) { // of an earlier function
        boundary.arguments[i].set(shardingAttr, ShardingAttr::replicated(&getContext(), type.getRank()));
      }
    }
    return success();
  }

  /// State comes back as it went in; outputs are whole, except those that are a rank's own share. Shares and gradients
  /// leave as partitioning finds them.
  LogicalResult placeResults(func::FuncOp function, BoundaryAttributes &boundary) {
    for (unsigned i = 0; i < function.getNumResults(); ++i) {
      auto roleName = function.getResultAttrOfType<StringAttr>(i, roleAttr);
      auto name = function.getResultAttrOfType<StringAttr>(i, nameAttr);
      if (!roleName || !name)
        return function.emitError() << "result " << i << " lacks " << roleAttr << " or " << nameAttr;
      auto type = cast<RankedTensorType>(function.getResultTypes()[i]);
      if (isState(roleName)) {
        boundary.results[i].set(shardingAttr, placements.lookup(name));
        boundary.results[i].set(storageAttr, placements.lookup(name));
      } else if (roleName == role::output && !isShare(name)) {
        boundary.results[i].set(shardingAttr, ShardingAttr::replicated(&getContext(), type.getRank()));
      }
    }
    return success();
  }

  LogicalResult placeTags(func::FuncOp function, Section &tags) {
    LogicalResult result = success();
    function.walk([&](TagOp tag) {
      SmallVector<StringRef> dims = stringsOf(tag.getDimNames());
      ShardingAttr sharding = tags.place(tag.getName(), dims);
      if (sharding.isReplicated())
        return;
      if (failed(check(sharding, tag.getType(), tag.getNameAttr(), tag)))
        result = failure();
      tag.setShardingAttr(sharding);
    });
    return result;
  }

  static bool isState(StringAttr roleName) {
    return roleName == role::parameter || roleName == role::moment1 || roleName == role::moment2 ||
           roleName == role::reducedGradient;
  }

  SmallVector<StringRef> dimNamesOf(StringAttr name) {
    return llvm::map_to_vector(byName.lookup(name).getDimNames(), [](StringAttr s) { return s.getValue(); });
  }

  LogicalResult check(ShardingAttr sharding, RankedTensorType type, StringAttr name, Operation *op) {
    for (int64_t dim = 0; dim < sharding.getRank(); ++dim)
      for (AxisRefAttr axis : sharding.getDimAxes(dim))
        splitting.insert(axis.getAxis());
    if (std::optional<std::string> problem = sharding.findProblem(type.getRank(), meshAttr))
      return op->emitError() << "the strategy cannot place " << name << ": " << *problem;
    return success();
  }

  /// What the host feeds is cut into equal pieces: there is no padding sample.
  LogicalResult checkDivides(ShardingAttr sharding, RankedTensorType type, StringAttr name, ArrayRef<StringRef> dims,
                             Operation *op) {
    for (auto [dim, size] : llvm::enumerate(type.getShape()))
      if (int64_t shards = sharding.getNumShards(dim, meshAttr); size % shards != 0)
        return op->emitError() << "input " << name << ": dimension " << dims[dim] << " of size " << size
                               << " does not divide over " << shards << " ranks; change the batch or the mesh";
    return success();
  }

  MeshAttr meshAttr;
  SmallVector<ParamAttr> parameters;
  llvm::DenseMap<StringAttr, ParamAttr> byName;
  llvm::DenseMap<StringAttr, ShardingAttr> placements;
  llvm::DenseSet<StringAttr> splitting; ///< axes that some placement names
};
} // namespace
