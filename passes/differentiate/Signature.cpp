// Functions whose arguments and results are known by their ports.
#include "passes/differentiate/Signature.h"
#include "dialect/IR/ElementTypes.h"
#include "dialect/IR/Locations.h"

using namespace mlir;
using namespace dtc;

/// The attributes of thousands of ports: the attribute's name is looked up only once.
static SmallVector<DictionaryAttr> attributesOf(ArrayRef<dt::PortAttr> ports, MLIRContext *context) {
  auto name = StringAttr::get(context, dt::portAttr);
  return llvm::map_to_vector(
      ports, [&](dt::PortAttr port) { return DictionaryAttr::getWithSorted(context, NamedAttribute(name, port)); });
}

std::optional<unsigned> dtc::findOutput(func::FuncOp function, StringRef name) {
  auto port = dt::PortAttr::get(function.getContext(), dt::PortKind::Output, name);
  for (unsigned index = 0; index < function.getNumResults(); ++index)
    if (dt::resultPort(function, index) == port)
      return index;
  return std::nullopt;
}

dt::PortAttr dtc::inputPort(MLIRContext *context, dt::SourceKind kind) {
  return dt::PortAttr::get(context, dt::stringifySourceKind(kind), dt::SourceAttr::get(context, kind, {}));
}

func::FuncOp dtc::requireFunction(ModuleOp module, StringRef name) {
  auto function = module.lookupSymbol<func::FuncOp>(name);
  if (!function)
    module.emitError("has no function @") << name;
  else if (!function.getBody().hasOneBlock()) {
    function.emitError("@") << name << " must have one block";
    return {};
  }
  return function;
}

FailureOr<SmallVector<func::FuncOp>> dtc::requireModel(ModuleOp module) {
  SmallVector<func::FuncOp> functions;
  for (StringRef name : {dt::function::prompt, dt::function::generate})
    if (auto function = module.lookupSymbol<func::FuncOp>(name))
      functions.push_back(function);
  if (functions.empty())
    functions.push_back(requireFunction(module, dt::function::loss));
  if (!functions.front())
    return failure();
  return functions;
}

void dtc::takeEvaluationForm(func::FuncOp function) {
  for (Operation &op : llvm::make_early_inc_range(function.getBody().front()))
    if (auto evaluated = dyn_cast<dt::EvaluationOpInterface>(op)) {
      dt::MarkListener listener(dt::marksOf(&op));
      OpBuilder builder(&op, &listener);
      op.replaceAllUsesWith(evaluated.buildEvaluation(builder));
      op.erase();
    }
}

FailureOr<Type> dtc::parseFloatType(ModuleOp module, StringRef name) {
  Builder builder(module.getContext());
  for (Type type : {Type(builder.getF32Type()), Type(builder.getBF16Type()), Type(builder.getF16Type())})
    if (dt::elementTypeOf(type).name == std::string_view(name))
      return type;
  return module.emitError("unknown floating-point type \"") << name << "\"; there are \"f32\", \"bf16\" and \"f16\"";
}

func::FuncOp dtc::createFunction(ModuleOp module, StringRef name, ArrayRef<Argument> arguments) {
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  SmallVector<Type> types;
  SmallVector<dt::PortAttr> ports;
  for (const Argument &argument : arguments) {
    types.push_back(argument.type);
    ports.push_back(argument.port);
  }
  auto function = func::FuncOp::create(builder, NameLoc::get(builder.getStringAttr(name)), name,
                                       builder.getFunctionType(types, {}));
  function.setAllArgAttrs(attributesOf(ports, module.getContext()));
  Block *body = function.addEntryBlock();
  for (auto [value, argument] : llvm::zip(body->getArguments(), arguments))
    value.setLoc(argument.loc);
  return function;
}

Arguments::Arguments(func::FuncOp function) : context(function.getContext()) {
  FunctionOpInterface interface = function;
  for (auto [index, argument] : llvm::enumerate(function.getArguments()))
    if (dt::PortAttr port = dt::argumentPort(interface, index)) {
      values[port.identity()] = argument;
      if (port.getSource())
        inputs.try_emplace(port.getSource(), argument);
    }
}

Value Arguments::get(dt::PortKind kind, StringRef name, StringRef slot) const {
  return values.lookup({kind, StringAttr::get(context, name), StringAttr::get(context, slot)});
}

void Results::add(Value value, dt::PortAttr port) {
  values.push_back(value);
  ports.push_back(port);
}

void Results::add(Value value, dt::PortKind kind, StringRef name, StringRef slot) {
  add(value, dt::PortAttr::get(value.getContext(), kind, name, slot));
}

void Results::addPartial(Value value, dt::PortKind kind, StringRef name) {
  add(value, dt::PortAttr::get(value.getContext(), kind, name).withPartial(true));
}

void Results::finish(func::FuncOp function) {
  OpBuilder builder = OpBuilder::atBlockEnd(&function.getBody().front());
  func::ReturnOp::create(builder, function.getLoc(), values);
  function.setType(builder.getFunctionType(function.getArgumentTypes(), TypeRange(ValueRange(values))));
  function.setAllResultAttrs(attributesOf(ports, function.getContext()));
}

void PurposeListener::setPurpose(StringRef newPurpose) {
  purpose = newPurpose.str();
  place = {};
}

void PurposeListener::notifyOperationInserted(Operation *op, OpBuilder::InsertPoint previous) {
  MarkListener::notifyOperationInserted(op, previous);
  if (purpose.empty() || op->hasTrait<OpTrait::ConstantLike>())
    return;
  if (LocationAttr(op->getLoc()) != place) {
    place = op->getLoc();
    placeWithPurpose = withPurpose(op->getLoc(), purpose);
  }
  op->setLoc(placeWithPurpose);
}

void dtc::markAll(func::FuncOp function, dt::Direction direction) {
  dt::Marks marks{{}, dt::DirectionAttr::get(function.getContext(), direction)};
  dt::Marker marker;
  for (Operation &op : function.getBody().front().without_terminator())
    marker.mark(&op, marks);
}
