// Models written in the dialect's own text.
#include "frontends/text/Text.h"

#include "dialect/IR/Ops.h"
#include "dialect/IR/Roles.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "runtime/abi/error.h"
#include "llvm/Support/raw_ostream.h"

using namespace dtc;
using namespace mlir;

[[noreturn]] static void fail(const std::string &path, const std::string &problem) {
  throw Error(ExitCode::BadInput, path + ": " + problem);
}

static OwningOpRef<ModuleOp> parse(const std::string &path, MLIRContext &context) {
  std::string diagnostics;
  llvm::raw_string_ostream stream(diagnostics);
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    stream << (diagnostics.empty() ? "" : "\n") << diagnostic.getLocation() << ": " << diagnostic;
    return success();
  });
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(path, &context);
  if (!module)
    fail(path, "is not a module of the dt dialect:\n" + diagnostics);
  return module;
}

/// Argument `index` of @loss must be what the first form says stands there.
static void checkArgument(const std::string &path, func::FuncOp loss, unsigned index, StringRef role, StringRef name,
                          ArrayRef<int64_t> shape) {
  std::string where = "argument " + std::to_string(index) + " of @loss";
  auto hasRole = loss.getArgAttrOfType<StringAttr>(index, dt::roleAttr);
  auto hasName = loss.getArgAttrOfType<StringAttr>(index, dt::nameAttr);
  if (!hasRole || hasRole != role || !hasName || hasName != name)
    fail(path, where + " must carry dt.role = \"" + role.str() + "\" and dt.name = \"" + name.str() + "\"");
  if (cast<RankedTensorType>(loss.getArgumentTypes()[index]).getShape() != shape)
    fail(path, where + " (" + name.str() + ") has another shape than its declaration");
}

static func::FuncOp checkFirstForm(const std::string &path, ModuleOp module) {
  auto loss = module.lookupSymbol<func::FuncOp>(dt::function::loss);
  auto parameters = module->getAttrOfType<ArrayAttr>(dt::module_attr::parameters);
  if (!loss || loss.isExternal() || !parameters || !module->getAttrOfType<StringAttr>(dt::module_attr::model) ||
      !module->getAttrOfType<DictionaryAttr>(dt::module_attr::symbols))
    fail(path, "a model in text needs the attributes dt.model, dt.symbols and dt.parameters and a function @loss");
  constexpr unsigned numInputs = 3, numResults = 2;
  if (loss.getNumArguments() != parameters.size() + numInputs || loss.getNumResults() != numResults)
    fail(path,
         "@loss must take the " + std::to_string(parameters.size()) +
             " parameters of dt.parameters, tokens, targets and key, and return the loss's sum and the token count");
  for (auto [index, attr] : llvm::enumerate(parameters)) {
    auto parameter = dyn_cast<dt::ParamAttr>(attr);
    if (!parameter)
      fail(path, "dt.parameters must hold #dt.param attributes");
    checkArgument(path, loss, index, dt::role::parameter, parameter.getName(), parameter.getLogicalShape());
  }
  auto tokens = dyn_cast<RankedTensorType>(loss.getArgumentTypes()[parameters.size()]);
  if (!tokens || tokens.getRank() != 2)
    fail(path, "tokens must be a tensor [batch, sequence]");
  checkArgument(path, loss, parameters.size(), dt::role::input, "tokens", tokens.getShape());
  checkArgument(path, loss, parameters.size() + 1, dt::role::input, "targets", tokens.getShape());
  checkArgument(path, loss, parameters.size() + 2, dt::role::input, "key", {4});
  return loss;
}

Model dtc::text::load(const std::string &path, const ModelOptions &options, MLIRContext &context) {
  Model model;
  model.module = parse(path, context);
  func::FuncOp loss = checkFirstForm(path, *model.module);

  if (options.dropout)
    fail(path, "the dropout of a model in text is what its operations say: leave model.dropout unset");
  if (!options.symbols.empty())
    fail(path,
         "the sizes of a model in text are fixed, so '" + options.symbols.begin()->first + "' cannot be replaced");
  ArrayRef<int64_t> rows = cast<RankedTensorType>(loss.getArgumentTypes()[loss.getNumArguments() - 3]).getShape();
  if (rows[0] != options.batch || (options.sequence && rows[1] != options.sequence))
    fail(path, "the text is written for micro-batches of " + std::to_string(rows[0]) + " rows of " +
                   std::to_string(rows[1]) + " tokens; training asks for " + std::to_string(options.batch) + " of " +
                   std::to_string(options.sequence ? options.sequence : rows[1]));
  return model;
}
