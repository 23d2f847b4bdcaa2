// Building blocks for frontends.
#include "frontends/ModelBuilder.h"

#include "dialect/IR/Padding.h"
#include "mlir/IR/Builders.h"
#include "runtime/abi/outputs.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace dtc;

static RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

ModelBuilder::ModelBuilder(MLIRContext &context, StringRef modelName, const Symbols &symbols)
    : builder(&context), symbols(symbols), module(ModuleOp::create(builder.getUnknownLoc())) {
  (*module)->setAttr(dt::module_attr::model, builder.getStringAttr(modelName));
  SmallVector<NamedAttribute> table;
  for (const auto &[name, size] : symbols)
    table.push_back(builder.getNamedAttr(name, builder.getI64IntegerAttr(size)));
  (*module)->setAttr(dt::module_attr::symbols, builder.getDictionaryAttr(table));
}

int64_t ModelBuilder::size(StringRef symbol) const {
  auto found = symbols.find(symbol.str());
  if (found == symbols.end())
    llvm::report_fatal_error("a frontend uses the symbol '" + symbol + "', which it did not define");
  return found->second;
}

Location ModelBuilder::location() const { return NameLoc::get(StringAttr::get(builder.getContext(), prefix)); }

ArrayAttr ModelBuilder::stringArray(ArrayRef<StringRef> strings) { return builder.getStrArrayAttr(strings); }

NamedAttrList ModelBuilder::portAttributes(dt::PortAttr port) {
  NamedAttrList attributes;
  attributes.set(dt::portAttr, port);
  return attributes;
}

// Arguments

Value ModelBuilder::addInput(StringRef name, dt::SourceKind from, RankedTensorType type, ArrayRef<StringRef> dims) {
  auto source = dt::SourceAttr::get(builder.getContext(), from, {});
  NamedAttrList attributes = portAttributes(dt::PortAttr::get(builder.getContext(), name, source));
  attributes.set(dt::dimsAttr, stringArray(dims));
  argumentAttributes.push_back(attributes.getDictionary(builder.getContext()));
  return body->addArgument(type, NameLoc::get(builder.getStringAttr(name)));
}

Value ModelBuilder::positions() {
  if (!positionsValue) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(body);
    auto type = RankedTensorType::get({size("sequence")}, builder.getI32Type());
    positionsValue = dt::IotaOp::create(builder, NameLoc::get(builder.getStringAttr("positions")), type, 0, nullptr);
  }
  return positionsValue;
}

Value ModelBuilder::places() {
  if (!startsOfDocuments)
    return positions();
  auto type = typeOf(startsOfDocuments);
  Value columns = create<dt::BroadcastOp>(type, positions(), ArrayRef<int64_t>{1});
  return create<dt::SubOp>(type, columns, startsOfDocuments);
}

namespace {
/// A file's shape in named sizes, as ModelBuilder::parameter reads it.
struct FileDims {
  SmallVector<StringRef> factors;
  SmallVector<int64_t> fileShape, factoredShape;

  FileDims(StringRef text, const ModelBuilder &builder) {
    SmallVector<StringRef> dims;
    text.split(dims, ',');
    for (StringRef dim : dims) {
      int64_t product = 1;
      for (StringRef factor : llvm::split(dim.trim(), ' ')) {
        auto [name, literal] = factor.split('=');
        int64_t size = 0;
        factors.push_back(name);
        factoredShape.push_back(llvm::to_integer(literal, size) ? size : builder.size(name));
        product *= factoredShape.back();
      }
      fileShape.push_back(product);
    }
  }
};
} // namespace

Value ModelBuilder::parameter(StringRef name, StringRef fileDims, Init init, StringRef logicalDims) {
  FileDims file(fileDims, *this);
  SmallVector<StringRef> logical(file.factors);
  if (!logicalDims.empty()) {
    logical.clear();
    logicalDims.split(logical, ',');
  }
  SmallVector<int64_t> permutation, shape;
  SmallVector<StringAttr> names;
  for (StringRef dim : logical) {
    auto factor = llvm::find(file.factors, dim.trim());
    if (factor == file.factors.end())
      llvm::report_fatal_error("parameter " + name + ": '" + dim + "' is not a dimension of '" + fileDims + "'");
    permutation.push_back(factor - file.factors.begin());
    shape.push_back(file.factoredShape[permutation.back()]);
    names.push_back(builder.getStringAttr(*factor));
  }

  std::string fullName = qualified(name);
  bool decays = file.fileShape.size() >= 2;
  parameters.push_back(dt::ParamAttr::get(builder.getContext(), builder.getStringAttr(fullName), layer, file.fileShape,
                                          file.factoredShape, permutation, names, builder.getStringAttr(init.kind),
                                          builder.getF64FloatAttr(init.stddev), decays, ArrayRef<StringAttr>()));
  unsigned index = parameters.size() - 1;
  auto port = dt::PortAttr::get(builder.getContext(), dt::PortKind::Parameter, fullName);
  argumentAttributes.insert(argumentAttributes.begin() + index,
                            portAttributes(port).getDictionary(builder.getContext()));
  return body->insertArgument(index, RankedTensorType::get(shape, builder.getF32Type()),
                              NameLoc::get(builder.getStringAttr(fullName)));
}

Value ModelBuilder::tied(StringRef name, Value parameter) {
  unsigned index = cast<BlockArgument>(parameter).getArgNumber();
  auto own = cast<dt::ParamAttr>(parameters[index]);
  SmallVector<StringAttr> names(own.getTiedNames());
  names.push_back(builder.getStringAttr(qualified(name)));
  parameters[index] = dt::ParamAttr::get(builder.getContext(), own.getName(), own.getLayer(), own.getFileShape(),
                                         own.getFactoredShape(), own.getPermutation(), own.getDimNames(), own.getInit(),
                                         own.getStddev(), own.getDecays(), names);
  return parameter;
}

// Operations

Value ModelBuilder::contract(StringRef spec, Value lhs, Value rhs) { return create<dt::ContractOp>(spec, lhs, rhs); }

Value ModelBuilder::addBias(Value x, Value bias) {
  RankedTensorType type = typeOf(x);
  int64_t first = type.getRank() - typeOf(bias).getRank();
  auto dims = llvm::to_vector(llvm::seq<int64_t>(first, type.getRank()));
  return add(x, create<dt::BroadcastOp>(type, bias, dims));
}

Value ModelBuilder::add(Value lhs, Value rhs) { return create<dt::AddOp>(lhs.getType(), lhs, rhs); }

Value ModelBuilder::multiply(Value lhs, Value rhs) { return create<dt::MulOp>(lhs.getType(), lhs, rhs); }

Value ModelBuilder::gather(Value table, Value indices, std::optional<int64_t> padding) {
  SmallVector<int64_t> shape(typeOf(indices).getShape());
  shape.push_back(typeOf(table).getDimSize(1));
  auto rows = create<dt::GatherOp>(RankedTensorType::get(shape, builder.getF32Type()), table, indices, nullptr);
  if (padding)
    rows->setAttr(dt::paddingAttr, builder.getI64IntegerAttr(*padding));
  return rows;
}

Value ModelBuilder::layerNorm(Value x, Value scale, Value bias, double epsilon) {
  return create<dt::LayerNormOp>(x, scale, bias, epsilon).getResult();
}

Value ModelBuilder::layerNorm(StringRef name, StringRef dim, Value x, double epsilon) {
  Scope scope(*this, name);
  Value weight = parameter("weight", dim, Init::ones()), bias = parameter("bias", dim, Init::zeros());
  return layerNorm(x, weight, bias, epsilon);
}

Value ModelBuilder::rmsNorm(Value x, Value scale, double epsilon) {
  return create<dt::RmsNormOp>(x, scale, epsilon).getResult();
}

Value ModelBuilder::activate(Activation function, Value x) {
  switch (function) {
  case Activation::GeluTanh:
    return create<dt::GeluOp>(x.getType(), x, /*tanh=*/true);
  case Activation::Gelu:
    return create<dt::GeluOp>(x.getType(), x, /*tanh=*/false);
  case Activation::Silu:
    return create<dt::SiluOp>(x.getType(), x);
  case Activation::Tanh:
    return create<dt::TanhOp>(x.getType(), x);
  }
  llvm_unreachable("every activation is built above");
}

Value ModelBuilder::dropout(Value x, double rate) {
  if (rate == 0)
    return x;
  return create<dt::DropoutOp>(x.getType(), x, key, builder.getF64FloatAttr(rate),
                               builder.getI64IntegerAttr(nextSite++));
}

Value ModelBuilder::scale(Value x, double factor) {
  return factor == 1 ? x : multiply(x, create<dt::ConstantOp>(typeOf(x), factor));
}

Value ModelBuilder::addOne(Value x) { return add(x, create<dt::ConstantOp>(typeOf(x), 1.0)); }

Value ModelBuilder::softCap(Value x, double cap) {
  return scale(create<dt::TanhOp>(x.getType(), scale(x, 1 / cap)), cap);
}

/// Attributes are set only for what differs from the plain embedding.
Value ModelBuilder::rotary(Value x, const Rotary &how) {
  IntegerAttr pairs = 2 * how.pairs == typeOf(x).getShape().back() ? nullptr : builder.getI64IntegerAttr(how.pairs);
  auto scaling = how.scaling ? dt::RotaryScalingAttr::get(builder.getContext(), *how.scaling) : nullptr;
  return create<dt::RotaryOp>(x.getType(), x, positions(), builder.getF64FloatAttr(how.theta), pairs, scaling, nullptr);
}

/// A window over the whole sequence hides nothing, so it is left out. Positions that a cache does not hold yet come
/// after those that are read, so the causal mask hides them.
Value ModelBuilder::attention(Value q, Value k, Value v, const Scores &scores) {
  ArrayRef<int64_t> shape = typeOf(q).getShape(); // [B,S,G,R,E]
  int64_t batch = shape[0], sequence = shape[1], groups = shape[2], repeats = shape[3];
  int64_t length = capacity.value_or(sequence);
  if (capacity) {
    k = cached("keys", k);
    v = cached("values", v);
  }
  auto lse = RankedTensorType::get({batch, groups, repeats, sequence}, builder.getF32Type());
  int64_t site = scores.dropout == 0 ? 0 : nextSite++;
  bool hides = scores.window && *scores.window < length;
  return create<dt::AttentionOp>(q.getType(), lse, q, k, v, positions(), capacity ? keyPositions : positions(), key,
                                 startsOfDocuments, builder.getF64FloatAttr(scores.scale), builder.getBoolAttr(true),
                                 builder.getF64FloatAttr(scores.dropout), builder.getI64IntegerAttr(site),
                                 builder.getDenseI64ArrayAttr({batch, groups, repeats, length}),
                                 hides ? builder.getI64IntegerAttr(*scores.window) : nullptr,
                                 scores.softCap ? builder.getF64FloatAttr(*scores.softCap) : nullptr, nullptr)
      .getOut();
}

Value ModelBuilder::slice(Value x, int64_t dim, int64_t begin, int64_t count) {
  SmallVector<int64_t> shape(typeOf(x).getShape()), offsets(shape.size(), 0);
  offsets[dim] = begin;
  shape[dim] = count;
  return create<dt::SliceOp>(RankedTensorType::get(shape, builder.getF32Type()), x, offsets);
}

Value ModelBuilder::select(Value x, int64_t dim, int64_t index) {
  Value one = slice(x, dim, index, 1);
  SmallVector<int64_t> shape(typeOf(one).getShape());
  shape.erase(shape.begin() + dim);
  return reshape(one, shape);
}

Value ModelBuilder::reshape(Value x, ArrayRef<int64_t> shape) {
  return create<dt::ReshapeOp>(RankedTensorType::get(shape, typeOf(x).getElementType()), x);
}

Value ModelBuilder::tag(Value x, StringRef name, ArrayRef<StringRef> dims) {
  return create<dt::TagOp>(x.getType(), x, builder.getStringAttr(qualified(name)), stringArray(dims), nullptr);
}

/// Picks a position by a product with ones and zeros, which is exact, wherever the batch and the model are split.
Value ModelBuilder::predicting(Value x) {
  if (!lastPosition)
    return x;
  RankedTensorType type = typeOf(x), places = typeOf(positions());
  Value last = create<dt::BroadcastOp>(places, lastPosition, ArrayRef<int64_t>{});
  Value isLast = create<dt::CompareOp>(RankedTensorType::get(places.getShape(), builder.getI1Type()),
                                       dt::CompareDirection::EQ, positions(), last);
  Value chosen = create<dt::ConvertOp>(RankedTensorType::get(places.getShape(), type.getElementType()), isLast);
  return reshape(contract("bsd,s->bd", x, chosen), {type.getDimSize(0), 1, type.getDimSize(2)});
}

// Functions

void ModelBuilder::beginFunction(StringRef name) {
  parameters.clear();
  argumentAttributes.clear();
  caches.clear();
  capacity.reset();
  positionsValue = keyPositions = startsOfDocuments = lastPosition = Value();
  nextSite = 0;
  builder.setInsertionPointToEnd(module->getBody());
  function = func::FuncOp::create(builder, builder.getUnknownLoc(), name, builder.getFunctionType({}, {}));
  body = function.addEntryBlock();
  builder.setInsertionPointToStart(body);
}

void ModelBuilder::endFunction(ArrayRef<std::pair<Value, dt::PortAttr>> results) {
  auto values = llvm::to_vector(llvm::make_first_range(results));
  func::ReturnOp::create(builder, location(), values);
  function.setFunctionType(builder.getFunctionType(body->getArgumentTypes(), TypeRange(ValueRange(values))));
  function.setArgAttrsAttr(builder.getArrayAttr(argumentAttributes));
  SmallVector<Attribute> ports;
  for (dt::PortAttr port : llvm::make_second_range(results))
    ports.push_back(portAttributes(port).getDictionary(builder.getContext()));
  function.setResAttrsAttr(builder.getArrayAttr(ports));
  (*module)->setAttr(dt::module_attr::parameters, builder.getArrayAttr(parameters)); // the same in all functions
}

void ModelBuilder::beginLoss(bool separateDocuments) {
  beginFunction(dt::function::loss);
  auto batch = RankedTensorType::get({size("batch"), size("sequence")}, builder.getI32Type());
  tokensValue = addInput("tokens", dt::SourceKind::Tokens, batch, {"batch", "sequence"});
  targetsValue = addInput("targets", dt::SourceKind::NextTokens, batch, {"batch", "sequence"});
  if (separateDocuments)
    startsOfDocuments = addInput("document_starts", dt::SourceKind::DocumentStarts, batch, {"batch", "sequence"});
  key = addInput("key", dt::SourceKind::Key, RankedTensorType::get({4}, builder.getI32Type()), {"key"});
}

void ModelBuilder::endLoss(Value logits) {
  constexpr int64_t ignored = -100; // as in PyTorch
  Scope scope(*this, "loss");
  auto rows = RankedTensorType::get(typeOf(targetsValue).getShape(), builder.getF32Type());

  Value nll = create<dt::SoftmaxCrossEntropyOp>(logits, targetsValue, ignored).getNll();
  Value lossSum = create<dt::ReduceOp>(dt::ReductionKind::Sum, nll, ArrayRef<int64_t>{0, 1});
  Value ignoredId = create<dt::ConstantOp>(typeOf(targetsValue), static_cast<double>(ignored));
  Value counts = create<dt::CompareOp>(RankedTensorType::get(rows.getShape(), builder.getI1Type()),
                                       dt::CompareDirection::NE, targetsValue, ignoredId);
  Value count =
      create<dt::ReduceOp>(dt::ReductionKind::Sum, create<dt::ConvertOp>(rows, counts), ArrayRef<int64_t>{0, 1});
  auto output = [&](const abi::Output &output) {
    return dt::PortAttr::get(builder.getContext(), dt::PortKind::Output, output.name);
  };
  endFunction({{lossSum, output(abi::output::lossSum)}, {count, output(abi::output::tokenCount)}});
}

// Generation

/// Functions for different numbers of positions have inputs with different names.
void ModelBuilder::addGenerationInputs(const std::string &namesBegin) {
  auto ofType = [&](ArrayRef<int64_t> shape) { return RankedTensorType::get(shape, builder.getI32Type()); };
  int64_t rows = size("batch"), count = size("sequence");
  tokensValue = addInput(namesBegin + "tokens", dt::SourceKind::Tokens, ofType({rows, count}), {"batch", "sequence"});
  positionsValue = addInput(namesBegin + "positions", dt::SourceKind::Positions, ofType({count}), {"sequence"});
  if (count > 1)
    lastPosition = addInput("last_position", dt::SourceKind::LastPosition, ofType({}), {});
  key = addInput("key", dt::SourceKind::Key, ofType({4}), {"key"});
  if (capacity)
    keyPositions = create<dt::IotaOp>(ofType({*capacity}), 0, nullptr);
}

void ModelBuilder::beginPrompt(int64_t count, std::optional<int64_t> cachedPositions) {
  beginFunction(dt::function::prompt);
  symbols["sequence"] = count;
  capacity = cachedPositions;
  addGenerationInputs("prompt_");
}

void ModelBuilder::beginGenerate(int64_t cachedPositions) {
  beginFunction(dt::function::generate);
  symbols["sequence"] = 1;
  capacity = cachedPositions;
  addGenerationInputs("");
}

void ModelBuilder::endGeneration(Value logits) {
  Value rows = reshape(logits, {size("batch"), typeOf(logits).getShape().back()});
  SmallVector<std::pair<Value, dt::PortAttr>> results(caches);
  results.push_back({rows, dt::PortAttr::get(builder.getContext(), dt::PortKind::Output, abi::output::logits.name)});
  endFunction(results);
}

Value ModelBuilder::cached(StringRef name, Value rows) {
  SmallVector<int64_t> shape(typeOf(rows).getShape());
  shape[1] = *capacity;
  auto port = dt::PortAttr::get(builder.getContext(), dt::PortKind::Cache, qualified(name));
  argumentAttributes.push_back(portAttributes(port).getDictionary(builder.getContext()));
  auto type = RankedTensorType::get(shape, builder.getF32Type());
  Value cache = body->addArgument(type, NameLoc::get(port.getName()));
  Value written = create<dt::WriteRowsOp>(type, cache, rows, positions());
  caches.push_back({written, port});
  return written;
}
