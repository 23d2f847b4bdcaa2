// What bounds need to know about a model, from its first form.
#include "tools/dtc/plan/Worker.h"

#include "dialect/IR/ElementTypes.h"
#include "dialect/IR/Marks.h"
#include "dialect/IR/Names.h"
#include "dialect/IR/Ops.h"
#include "runtime/abi/element_type.h"
#include "runtime/support/error.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"

#include <fmt/format.h>

#include <algorithm>

namespace dtc {

static int64_t sizeNamed(mlir::ModuleOp module, llvm::StringRef name) {
  auto symbols = module->getAttrOfType<mlir::DictionaryAttr>(mlir::dt::module_attr::symbols);
  auto size = symbols ? symbols.getAs<mlir::IntegerAttr>(name) : mlir::IntegerAttr();
  return size ? size.getInt() : 0;
}

static double elementsOf(mlir::dt::ParamAttr parameter) {
  double elements = 1;
  for (int64_t size : parameter.getLogicalShape())
    elements *= static_cast<double>(size);
  return elements;
}

static abi::DataType typeNamed(const std::string &name) {
  for (const abi::ElementType &row : abi::ElementTypes)
    if (row.name == name)
      return row.type;
  throw Error(ExitCode::Internal, fmt::format("'{}' is no element type", name));
}

/// Layers, and the parameters in them, before them and behind them. What is read before the first layer belongs there,
/// even if the head reads it, too.
static void countParameters(mlir::ModuleOp module, mlir::func::FuncOp loss, plans::ModelFacts &facts) {
  llvm::SetVector<mlir::dt::LayerAttr> layers;
  mlir::Operation *first = nullptr; // in a layer
  for (mlir::Operation &op : loss.front())
    if (mlir::dt::LayerAttr layer = mlir::dt::marksOf(&op).layer) {
      layers.insert(layer);
      first = first ? first : &op;
    }
  llvm::StringMap<mlir::BlockArgument> arguments;
  for (mlir::BlockArgument argument : loss.getArguments())
    if (mlir::dt::PortAttr port = mlir::dt::portOf(argument); port && port.getKind() == mlir::dt::PortKind::Parameter)
      arguments[port.getName().getValue()] = argument;
  auto isBeforeLayers = [&](mlir::Operation *op) { return op->isBeforeInBlock(first); };
  auto isBehind = [&](mlir::dt::ParamAttr parameter) {
    auto argument = arguments.find(parameter.getName().getValue());
    return first && argument != arguments.end() && llvm::none_of(argument->second.getUsers(), isBeforeLayers);
  };
  double inLayers = 0;
  if (auto parameters = module->getAttrOfType<mlir::ArrayAttr>(mlir::dt::module_attr::parameters))
    for (auto parameter : parameters.getAsRange<mlir::dt::ParamAttr>()) {
      bool isInLayer = parameter.getLayer() && !layers.empty();
      double &outside = isBehind(parameter) ? facts.lastParameters : facts.firstParameters;
      (isInLayer ? inLayers : outside) += elementsOf(parameter);
    }
  facts.layers = static_cast<int64_t>(layers.size());
  facts.layerParameters = layers.empty() ? 0 : inLayers / static_cast<double>(layers.size());
}

/// Bytes of optimizer state for each of the parameters' elements, from the update that a step makes.
static double slotBytesOf(mlir::ModuleOp step, double parameters) {
  double bytes = 0;
  if (auto update = step.lookupSymbol<mlir::func::FuncOp>(mlir::dt::function::update))
    for (mlir::BlockArgument argument : update.getArguments())
      if (mlir::dt::PortAttr port = mlir::dt::portOf(argument); port && port.getKind() == mlir::dt::PortKind::Slot)
        bytes += static_cast<double>(mlir::dt::bytesOf(argument.getType()));
  return parameters > 0 ? bytes / parameters : 0;
}

static void countSamples(mlir::func::FuncOp loss, plans::ModelFacts &facts) {
  for (mlir::BlockArgument argument : loss.getArguments())
    if (auto port = mlir::dt::portOf(argument); port && port.getSource() && port.getSource().isOfSamples())
      facts.sequence = mlir::cast<mlir::RankedTensorType>(argument.getType()).getShape().back();
}

plans::ModelFacts Evaluator::Worker::facts() {
  abi::Training training = settingsFor(request, /*microBatches=*/1);
  Model model = loadModel(training);
  mlir::ModuleOp module = *model.module;
  auto loss = module.lookupSymbol<mlir::func::FuncOp>(mlir::dt::function::loss);
  if (!loss)
    throw Error(ExitCode::BadInput, request.model + ": has no function @loss, and a plan is for a model that trains");
  plans::ModelFacts facts;
  if (auto name = module->getAttrOfType<mlir::StringAttr>(mlir::dt::module_attr::model))
    facts.name = name.str();
  countParameters(module, loss, facts);
  countSamples(loss, facts);
  facts.batch = training.global_batch();
  facts.hidden = sizeNamed(module, "embed");
  facts.vocabulary = sizeNamed(module, "vocab");
  facts.heads = sizeNamed(module, "heads");
  facts.keyHeads = sizeNamed(module, "kv_heads");
  if (facts.heads == 0)
    facts.heads = facts.keyHeads * std::max<int64_t>(1, sizeNamed(module, "group"));
  if (facts.keyHeads == 0)
    facts.keyHeads = facts.heads;
  facts.compute = typeNamed(training.compute());
  facts.gradients = typeNamed(training.gradients());
  std::shared_ptr<LogicalStep> step = stepFor({});
  facts.flopsPerToken = step->flopsPerToken;
  facts.slotBytes = slotBytesOf(*step->model.module, facts.parameters());
  return facts;
}

} // namespace dtc
