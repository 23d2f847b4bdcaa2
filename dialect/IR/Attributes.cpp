// Meshes, axis references and shardings: their text form and their arithmetic.
#include "dialect/IR/Attributes.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::dt;

#include "dialect/IR/Enums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dialect/IR/Attributes.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "dialect/IR/Types.cpp.inc"

void DTDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialect/IR/Attributes.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialect/IR/Types.cpp.inc"
      >();
}

// Mesh

int64_t MeshAttr::getAxisSize(StringRef name) const {
  for (AxisAttr axis : getAxes())
    if (axis.getName() == name)
      return axis.getSize();
  return 0;
}

int64_t MeshAttr::getNumRanks() const {
  int64_t ranks = 1;
  for (AxisAttr axis : getAxes())
    ranks *= axis.getSize();
  return ranks;
}

LogicalResult MeshAttr::verify(function_ref<InFlightDiagnostic()> emitError, ArrayRef<AxisAttr> axes) {
  for (auto [i, axis] : llvm::enumerate(axes)) {
    if (axis.getSize() < 1)
      return emitError() << "mesh axis " << axis.getName() << " has size " << axis.getSize()
                         << "; sizes are positive (C2)";
    for (AxisAttr other : axes.take_front(i))
      if (other.getName() == axis.getName())
        return emitError() << "mesh axis " << axis.getName() << " stands twice (C1)";
  }
  return success();
}

Attribute MeshAttr::parse(AsmParser &parser, Type) {
  SmallVector<AxisAttr> axes;
  auto parseAxis = [&]() -> ParseResult {
    std::string name;
    int64_t size;
    if (parser.parseString(&name) || parser.parseEqual() || parser.parseInteger(size))
      return failure();
    axes.push_back(AxisAttr::get(parser.getContext(), StringAttr::get(parser.getContext(), name), size));
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater, parseAxis))
    return {};
  return MeshAttr::getChecked([&] { return parser.emitError(parser.getNameLoc()); }, parser.getContext(), axes);
}

void MeshAttr::print(AsmPrinter &printer) const {
  printer << "<";
  llvm::interleaveComma(getAxes(), printer,
                        [&](AxisAttr axis) { printer << axis.getName() << " = " << axis.getSize(); });
  printer << ">";
}

// Axis references

int64_t AxisRefAttr::getSizeIn(MeshAttr mesh) const { return isWhole() ? mesh.getAxisSize(getAxis()) : getSize(); }

bool AxisRefAttr::overlaps(AxisRefAttr other, MeshAttr mesh) const {
  if (getAxis() != other.getAxis())
    return false;
  if (isWhole() || other.isWhole())
    return true;
  // Digits are ranges of the axis's factorisation: [pre, pre * size).
  return getPre() < other.getPre() * other.getSize() && other.getPre() < getPre() * getSize();
}

static ParseResult parseAxisRef(AsmParser &parser, AxisRefAttr &ref) {
  std::string name;
  int64_t pre = 1, size = 0;
  if (parser.parseString(&name))
    return failure();
  if (succeeded(parser.parseOptionalColon()) &&
      (parser.parseLParen() || parser.parseInteger(pre) || parser.parseRParen() || parser.parseInteger(size)))
    return failure();
  ref = AxisRefAttr::get(parser.getContext(), StringAttr::get(parser.getContext(), name), pre, size);
  return success();
}

static void printAxisRef(AsmPrinter &printer, AxisRefAttr ref) {
  printer << ref.getAxis();
  if (!ref.isWhole())
    printer << ":(" << ref.getPre() << ")" << ref.getSize();
}

static ParseResult parseAxisRefs(AsmParser &parser, SmallVectorImpl<AxisRefAttr> &refs) {
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Braces,
                                        [&] { return parseAxisRef(parser, refs.emplace_back()); });
}

static void printAxisRefs(AsmPrinter &printer, ArrayRef<AxisRefAttr> refs) {
  printer << "{";
  llvm::interleaveComma(refs, printer, [&](AxisRefAttr ref) { printAxisRef(printer, ref); });
  printer << "}";
}

// Shardings

/// `sum {"tp"}`.
static ParseResult parsePartial(AsmParser &parser, SmallVectorImpl<AxisRefAttr> &axes,
                                SmallVectorImpl<ReductionKind> &reductions) {
  StringRef word;
  if (parser.parseKeyword(&word))
    return failure();
  std::optional<ReductionKind> kind = symbolizeReductionKind(word);
  if (!kind)
    return parser.emitError(parser.getNameLoc(), "unknown reduction '") << word << "': use sum or max";
  if (parseAxisRefs(parser, axes))
    return failure();
  reductions.resize(axes.size(), *kind);
  return success();
}

Attribute ShardingAttr::parse(AsmParser &parser, Type) {
  SmallVector<SmallVector<AxisRefAttr>> dims;
  SmallVector<AxisRefAttr> partial;
  SmallVector<ReductionKind> reductions;
  auto parseDim = [&] { return parseAxisRefs(parser, dims.emplace_back()); };
  if (parser.parseLess() || parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseDim))
    return {};
  if (succeeded(parser.parseOptionalComma())) {
    auto parsePart = [&] { return parsePartial(parser, partial, reductions); };
    if (parser.parseKeyword("partial") || parser.parseEqual() || parser.parseCommaSeparatedList(parsePart))
      return {};
  }
  if (parser.parseGreater())
    return {};
  return ShardingAttr::get(parser.getContext(), dims, partial, reductions);
}

void ShardingAttr::print(AsmPrinter &printer) const {
  printer << "<[";
  llvm::interleaveComma(llvm::seq<int64_t>(0, getRank()), printer,
                        [&](int64_t dim) { printAxisRefs(printer, getDimAxes(dim)); });
  printer << "]";
  for (size_t begin = 0, end = 0; begin < getPartial().size(); begin = end) { // axes of one kind together
    ReductionKind kind = getReductions()[begin];
    while (end < getPartial().size() && getReductions()[end] == kind)
      ++end;
    printer << (begin == 0 ? ", partial = " : ", ") << stringifyReductionKind(kind) << " ";
    printAxisRefs(printer, getPartial().slice(begin, end - begin));
  }
  printer << ">";
}

ShardingAttr ShardingAttr::replicated(MLIRContext *context, int64_t rank) {
  return get(context, SmallVector<SmallVector<AxisRefAttr>>(rank));
}

ShardingAttr ShardingAttr::get(MLIRContext *context, ArrayRef<SmallVector<AxisRefAttr>> dims,
                               ArrayRef<AxisRefAttr> partial, ReductionKind reduction) {
  return get(context, dims, partial, SmallVector<ReductionKind>(partial.size(), reduction));
}

ShardingAttr ShardingAttr::get(MLIRContext *context, ArrayRef<SmallVector<AxisRefAttr>> dims,
                               ArrayRef<AxisRefAttr> partial, ArrayRef<ReductionKind> reductions) {
  SmallVector<ArrayAttr> arrays;
  for (ArrayRef<AxisRefAttr> axes : dims)
    arrays.push_back(ArrayAttr::get(context, SmallVector<Attribute>(axes.begin(), axes.end())));
  // Equal meanings have one form.
  SmallVector<AxisRefAttr> axes;
  SmallVector<ReductionKind> kinds;
  for (unsigned kind = 0; kind <= getMaxEnumValForReductionKind(); ++kind)
    for (auto [axis, reduction] : llvm::zip_equal(partial, reductions))
      if (reduction == static_cast<ReductionKind>(kind)) {
        axes.push_back(axis);
        kinds.push_back(reduction);
      }
  return Base::get(context, ArrayRef<ArrayAttr>(arrays), ArrayRef<AxisRefAttr>(axes), ArrayRef<ReductionKind>(kinds));
}

SmallVector<AxisRefAttr> ShardingAttr::getPartial(ReductionKind kind) const {
  SmallVector<AxisRefAttr> axes;
  for (auto [axis, reduction] : llvm::zip_equal(getPartial(), getReductions()))
    if (reduction == kind)
      axes.push_back(axis);
  return axes;
}

SmallVector<AxisRefAttr> ShardingAttr::getDimAxes(int64_t dim) const {
  return llvm::map_to_vector(getDims()[dim], [](Attribute ref) { return cast<AxisRefAttr>(ref); });
}

int64_t ShardingAttr::getNumShards(int64_t dim, MeshAttr mesh) const {
  int64_t shards = 1;
  for (AxisRefAttr ref : getDimAxes(dim))
    shards *= ref.getSizeIn(mesh);
  return shards;
}

bool ShardingAttr::isReplicated() const {
  return getPartial().empty() && llvm::all_of(getDims(), [](ArrayAttr axes) { return axes.empty(); });
}

ShardingAttr ShardingAttr::withoutPartial() const {
  return Base::get(getContext(), getDims(), ArrayRef<AxisRefAttr>(), ArrayRef<ReductionKind>());
}

ShardingAttr ShardingAttr::withoutPartial(ReductionKind kind) const {
  SmallVector<AxisRefAttr> axes;
  SmallVector<ReductionKind> kinds;
  for (auto [axis, reduction] : llvm::zip_equal(getPartial(), getReductions()))
    if (reduction != kind) {
      axes.push_back(axis);
      kinds.push_back(reduction);
    }
  return Base::get(getContext(), getDims(), ArrayRef<AxisRefAttr>(axes), ArrayRef<ReductionKind>(kinds));
}

SmallVector<int64_t> ShardingAttr::getLocalShape(ArrayRef<int64_t> globalShape, MeshAttr mesh) const {
  SmallVector<int64_t> shape(globalShape);
  for (auto [dim, size] : llvm::enumerate(shape)) {
    int64_t shards = getNumShards(dim, mesh);
    size = (size + shards - 1) / shards;
  }
  return shape;
}

RankedTensorType ShardingAttr::getLocalType(RankedTensorType global, MeshAttr mesh) const {
  return RankedTensorType::get(getLocalShape(global.getShape(), mesh), global.getElementType());
}

static std::optional<std::string> findProblemOf(AxisRefAttr ref, MeshAttr mesh) {
  int64_t size = mesh.getAxisSize(ref.getAxis());
  if (size == 0)
    return "the mesh has no axis " + ref.getAxis().str();
  if (!ref.isWhole() && (ref.getPre() < 1 || ref.getSize() < 1 || size % (ref.getPre() * ref.getSize()) != 0))
    return "sub-axis (" + std::to_string(ref.getPre()) + ")" + std::to_string(ref.getSize()) +
           " does not divide axis " + ref.getAxis().str() + " of size " + std::to_string(size);
  return std::nullopt;
}

std::optional<std::string> ShardingAttr::findProblem(int64_t rank, MeshAttr mesh) const {
  if (getRank() != rank)
    return "the sharding has " + std::to_string(getRank()) + " dimensions, the value " + std::to_string(rank);
  SmallVector<AxisRefAttr> refs(getPartial());
  for (int64_t dim = 0; dim < rank; ++dim)
    llvm::append_range(refs, getDimAxes(dim));
  for (auto [i, ref] : llvm::enumerate(refs)) {
    if (auto problem = findProblemOf(ref, mesh))
      return problem;
    for (AxisRefAttr other : ArrayRef(refs).take_front(i))
      if (ref.overlaps(other, mesh))
        return "axis " + ref.getAxis().str() + " is used twice (C1)";
  }
  return std::nullopt;
}

// Parameters

SmallVector<int64_t> ParamAttr::getLogicalShape() const {
  return llvm::map_to_vector(getPermutation(), [&](int64_t dim) { return getFactoredShape()[dim]; });
}

// Layers

LogicalResult LayerAttr::verify(function_ref<InFlightDiagnostic()> emitError, StringAttr list, int64_t number) {
  if (!list || list.getValue().empty() || number < 0)
    return emitError() << "a layer has the name of its list and its number there, from 0 on: \"h\"[3] (C1)";
  return success();
}

// Rotary embeddings

LogicalResult RotaryScalingAttr::verify(function_ref<InFlightDiagnostic()> emitError, FloatAttr factor, FloatAttr,
                                        FloatAttr, FloatAttr, FloatAttr amplitude) {
  if (!(factor.getValueAsDouble() >= 1) || !(amplitude.getValueAsDouble() > 0))
    return emitError() << "frequencies are divided by " << factor << " and multiplied by an amplitude of " << amplitude
                       << "; the first is at least 1, the second positive (C1)";
  return success();
}

RotaryScalingAttr RotaryScalingAttr::get(MLIRContext *context, const dtc::abi::RotaryScaling &scaling) {
  Builder builder(context);
  auto real = [&](double value) { return builder.getF64FloatAttr(value); };
  return get(context, real(scaling.factor), real(scaling.perFrequency), real(scaling.perPair), real(scaling.constant),
             real(scaling.amplitude));
}

dtc::abi::RotaryScaling RotaryScalingAttr::value() const {
  return {getFactor().getValueAsDouble(), getPerFrequency().getValueAsDouble(), getPerPair().getValueAsDouble(),
          getConstant().getValueAsDouble(), getAmplitude().getValueAsDouble()};
}

// Ports

LogicalResult SourceAttr::verify(function_ref<InFlightDiagnostic()> emitError, SourceKind kind, StringAttr setting) {
  bool hasSetting = setting && !setting.getValue().empty();
  if ((kind == SourceKind::BiasCorrection) != hasSetting)
    return emitError() << "a bias correction, and no other source, names a setting: bias_correction of \"beta1\" (C1)";
  return success();
}

PortAttr PortAttr::get(MLIRContext *context, PortKind kind, StringRef name, StringRef slot) {
  return get(context, kind, StringAttr::get(context, name), StringAttr::get(context, slot), /*source=*/{},
             /*may_be_partial=*/false, {}, {}, {});
}

PortAttr PortAttr::get(MLIRContext *context, StringRef input, SourceAttr source) {
  return get(context, PortKind::Input, StringAttr::get(context, input), StringAttr::get(context), source,
             /*may_be_partial=*/false, {}, {}, {});
}

PortAttr PortAttr::placedAs(ShardingAttr computed, ShardingAttr stored, RankedTensorType whole) const {
  return get(getContext(), getKind(), getName(), getSlot(), getSource(), getMayBePartial(), computed, stored, whole);
}

PortAttr PortAttr::withPartial(bool mayBePartial) const {
  return get(getContext(), getKind(), getName(), getSlot(), getSource(), mayBePartial, getComputed(), getStored(),
             getWhole());
}

PortAttr PortAttr::withSlot(StringRef slot) const {
  return get(getContext(), getKind(), getName(), StringAttr::get(getContext(), slot), getSource(), getMayBePartial(),
             getComputed(), getStored(), getWhole());
}

PortAttr PortAttr::withKind(PortKind kind) const {
  return get(getContext(), kind, getName(), getSlot(), getSource(), getMayBePartial(), getComputed(), getStored(),
             getWhole());
}

std::string PortAttr::describe() const {
  std::string text = stringifyPortKind(getKind()).str() + " ";
  if (!getSlot().empty())
    text += getSlot().str() + " of ";
  return text + getName().str();
}

LogicalResult PortAttr::verify(function_ref<InFlightDiagnostic()> emitError, PortKind kind, StringAttr name,
                               StringAttr slot, SourceAttr source, bool mayBePartial, ShardingAttr computed,
                               ShardingAttr stored, RankedTensorType) {
  bool isGradient = kind == PortKind::Gradient || kind == PortKind::ReducedGradient;
  if (!name || !slot || (!isGradient && (kind == PortKind::Slot) == slot.getValue().empty()))
    return emitError() << "a port of kind slot, and no other, names a slot: slot \"moment1\" of \"w\" (C1)";
  if (source && kind != PortKind::Input)
    return emitError() << "a port of kind " << stringifyPortKind(kind) << " has a source; only inputs have one (C2)";
  bool isState = kind == PortKind::Parameter || kind == PortKind::Slot || kind == PortKind::Copy;
  if (mayBePartial && isState)
    return emitError() << "a " << stringifyPortKind(kind) << " is whole between steps, it cannot be partial (C3)";
  if (static_cast<bool>(computed) != static_cast<bool>(stored))
    return emitError() << "a placed port has both placements";
  return success();
}

static ParseResult parseSharding(AsmParser &parser, ShardingAttr &sharding) {
  sharding = dyn_cast_or_null<ShardingAttr>(ShardingAttr::parse(parser, {}));
  return success(static_cast<bool>(sharding));
}

/// One of ", partial", ", placed = ...", ", computed = ...", ", stored = ..." and ", whole = ...".
static ParseResult parsePortField(AsmParser &parser, bool &mayBePartial, ShardingAttr &computed, ShardingAttr &stored,
                                  RankedTensorType &whole) {
  StringRef field;
  llvm::SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&field))
    return failure();
  if (field == "partial") {
    mayBePartial = true;
    return success();
  }
  if (parser.parseEqual())
    return failure();
  if (field == "placed") {
    if (parseSharding(parser, computed))
      return failure();
    stored = computed;
    return success();
  }
  if (field == "computed")
    return parseSharding(parser, computed);
  if (field == "stored")
    return parseSharding(parser, stored);
  if (field == "whole")
    return parser.parseType(whole);
  return parser.emitError(loc, "a port has no '") << field << "': use partial, placed, computed, stored or whole";
}

/// What follows "from": tokens, or bias_correction of "beta1".
static ParseResult parseSource(AsmParser &parser, SourceAttr &source) {
  StringRef keyword;
  std::string setting;
  llvm::SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&keyword))
    return failure();
  std::optional<SourceKind> kind = symbolizeSourceKind(keyword);
  if (!kind)
    return parser.emitError(loc, "unknown source '") << keyword << "' of an input";
  StringAttr name;
  if (succeeded(parser.parseOptionalKeyword("of"))) {
    if (parser.parseString(&setting))
      return failure();
    name = StringAttr::get(parser.getContext(), setting);
  }
  source = SourceAttr::getChecked([&] { return parser.emitError(loc); }, parser.getContext(), *kind, name);
  return success(static_cast<bool>(source));
}

Attribute PortAttr::parse(AsmParser &parser, Type) {
  StringRef keyword;
  std::string slot, name;
  if (parser.parseLess() || parser.parseKeyword(&keyword))
    return {};
  std::optional<PortKind> kind = symbolizePortKind(keyword);
  if (!kind) {
    parser.emitError(parser.getNameLoc(), "unknown kind of port '") << keyword << "'";
    return {};
  }
  if (parser.parseString(&name))
    return {};
  if (succeeded(parser.parseOptionalKeyword("of"))) {
    slot = std::move(name);
    if (parser.parseString(&name))
      return {};
  }
  SourceAttr source;
  if (succeeded(parser.parseOptionalKeyword("from")) && parseSource(parser, source))
    return {};
  bool mayBePartial = false;
  ShardingAttr computed, stored;
  RankedTensorType whole;
  while (succeeded(parser.parseOptionalComma()))
    if (parsePortField(parser, mayBePartial, computed, stored, whole))
      return {};
  if (parser.parseGreater())
    return {};
  MLIRContext *context = parser.getContext();
  return PortAttr::getChecked([&] { return parser.emitError(parser.getNameLoc()); }, context, *kind,
                              StringAttr::get(context, name), StringAttr::get(context, slot), source, mayBePartial,
                              computed, stored, whole);
}

void PortAttr::print(AsmPrinter &printer) const {
  printer << "<" << stringifyPortKind(getKind()) << " ";
  if (!getSlot().empty())
    printer << getSlot() << " of ";
  printer << getName();
  if (SourceAttr source = getSource()) {
    printer << " from " << stringifySourceKind(source.getKind());
    if (source.getSetting())
      printer << " of " << source.getSetting();
  }
  if (getMayBePartial())
    printer << ", partial";
  auto printSharding = [&](StringRef field, ShardingAttr sharding) {
    printer << ", " << field << " = ";
    sharding.print(printer);
  };
  if (isPlaced() && getComputed() == getStored()) {
    printSharding("placed", getComputed());
  } else if (isPlaced()) {
    printSharding("computed", getComputed());
    printSharding("stored", getStored());
  }
  if (getWhole())
    printer << ", whole = " << getWhole();
  printer << ">";
}
