// Functions whose arguments and results are known by role and name.
#include "passes/differentiate/Signature.h"
#include "dialect/IR/Locations.h"

using namespace mlir;
using namespace dtc;

static StringRef stringOf(Attribute attribute) {
  auto string = dyn_cast_or_null<StringAttr>(attribute);
  return string ? string.getValue() : StringRef();
}

DictionaryAttr dtc::portAttributes(MLIRContext *context, StringRef role, StringRef name) {
  Builder builder(context);
  return builder.getDictionaryAttr({builder.getNamedAttr(dt::roleAttr, builder.getStringAttr(role)),
                                    builder.getNamedAttr(dt::nameAttr, builder.getStringAttr(name))});
}

StringRef dtc::argumentRole(func::FuncOp function, unsigned index) {
  return stringOf(function.getArgAttr(index, dt::roleAttr));
}
StringRef dtc::argumentName(func::FuncOp function, unsigned index) {
  return stringOf(function.getArgAttr(index, dt::nameAttr));
}
StringRef dtc::resultRole(func::FuncOp function, unsigned index) {
  return stringOf(function.getResultAttr(index, dt::roleAttr));
}
StringRef dtc::resultName(func::FuncOp function, unsigned index) {
  return stringOf(function.getResultAttr(index, dt::nameAttr));
}

std::optional<unsigned> dtc::findResult(func::FuncOp function, StringRef name) {
  for (unsigned index = 0; index < function.getNumResults(); ++index)
    if (resultName(function, index) == name)
      return index;
  return std::nullopt;
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

func::FuncOp dtc::createFunction(ModuleOp module, StringRef name, ArrayRef<Port> arguments) {
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  SmallVector<Type> types;
  SmallVector<DictionaryAttr> attributes;
  for (const Port &port : arguments) {
    types.push_back(port.type);
    attributes.push_back(portAttributes(module.getContext(), port.role, port.name));
  }
  auto function = func::FuncOp::create(builder, NameLoc::get(builder.getStringAttr(name)), name,
                                       builder.getFunctionType(types, {}));
  function.setAllArgAttrs(attributes);
  Block *body = function.addEntryBlock();
  for (auto [argument, port] : llvm::zip(body->getArguments(), arguments))
    argument.setLoc(port.loc);
  return function;
}

Arguments::Arguments(func::FuncOp function) {
  for (auto [index, argument] : llvm::enumerate(function.getArguments()))
    values[{argumentRole(function, index), argumentName(function, index)}] = argument;
}

void Results::add(Value value, StringRef role, StringRef name) {
  values.push_back(value);
  attributes.push_back(portAttributes(value.getContext(), role, name));
}

void Results::finish(func::FuncOp function) {
  OpBuilder builder = OpBuilder::atBlockEnd(&function.getBody().front());
  func::ReturnOp::create(builder, function.getLoc(), values);
  function.setType(builder.getFunctionType(function.getArgumentTypes(), TypeRange(ValueRange(values))));
  function.setAllResultAttrs(attributes);
}

void LayerListener::notifyOperationInserted(Operation *op, OpBuilder::InsertPoint) {
  if (op->hasTrait<OpTrait::ConstantLike>())
    return;
  if (layer && !op->hasAttr(dt::layerAttr))
    op->setAttr(dt::layerAttr, layer);
  if (!purpose.empty())
    op->setLoc(withPurpose(op->getLoc(), purpose));
}
