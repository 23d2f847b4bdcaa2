// Models written in the dialect's own text.
#include "frontends/text/Text.h"
#include "frontends/text/Nesting.h"

#include "dialect/IR/Names.h"
#include "dialect/IR/Ops.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "runtime/abi/error.h"
#include "runtime/abi/mapped_file.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/raw_ostream.h"

using namespace dtc;
using namespace mlir;

[[noreturn]] static void fail(const std::string &path, const std::string &problem) {
  throw Error(ExitCode::BadInput, path + ": " + problem);
}

/// The file's text, after everything that would end the process in MLIR's parser.
static std::unique_ptr<llvm::MemoryBuffer> read(const std::string &path) {
  constexpr uint64_t limit = 64 << 20;
  MappedFile file(path);
  if (uint64_t size = file.text().size(); size > limit)
    fail(path, "has " + std::to_string(size) + " bytes; a model in text may have 64 MiB");
  auto buffer = llvm::MemoryBuffer::getMemBufferCopy(llvm::StringRef(file.text()), path);
  if (std::string problem = text::findExcess(buffer->getBuffer()); !problem.empty())
    fail(path, problem);
  return buffer;
}

static OwningOpRef<ModuleOp> parse(const std::string &path, MLIRContext &context) {
  std::string diagnostics;
  llvm::raw_string_ostream stream(diagnostics);
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    stream << (diagnostics.empty() ? "" : "\n") << diagnostic.getLocation() << ": " << diagnostic;
    return success();
  });
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(read(path), llvm::SMLoc());
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(sources, &context);
  if (!module)
    fail(path, "is not a module of the dt dialect:\n" + diagnostics);
  return module;
}

/// Argument `index` of @loss must be what the first form says stands there.
static void checkArgument(const std::string &path, func::FuncOp loss, unsigned index, dt::PortKind kind, StringRef name,
                          ArrayRef<int64_t> shape) {
  std::string where = "argument " + std::to_string(index) + " of @loss";
  if (dt::argumentPort(loss, index) != dt::PortAttr::get(loss.getContext(), kind, name))
    fail(path,
         where + " must carry dt.port = #dt.port<" + dt::stringifyPortKind(kind).str() + " \"" + name.str() + "\">");
  auto type = dyn_cast<RankedTensorType>(loss.getArgumentTypes()[index]);
  bool isNumber = kind == dt::PortKind::Parameter;
  if (!type || type.getShape() != shape ||
      !(isNumber ? type.getElementType().isF32() : type.getElementType().isInteger(32)))
    fail(path, where + " (" + name.str() + ") must be a tensor of " + (isNumber ? "f32" : "i32") +
                   " in the shape of its declaration");
}

/// The bijection between a parameter's logical tensor and its tensor in the file must be one.
static void checkParameter(const std::string &path, dt::ParamAttr parameter) {
  auto isPositive = [](int64_t size) { return size > 0; };
  bool positive =
      llvm::all_of(parameter.getFileShape(), isPositive) && llvm::all_of(parameter.getFactoredShape(), isPositive);
  auto elements = [](ArrayRef<int64_t> shape) {
    double product = 1; // exact for what a file can hold, and never overflows
    for (int64_t size : shape)
      product *= static_cast<double>(size);
    return product;
  };
  size_t rank = parameter.getFactoredShape().size();
  if (!positive || elements(parameter.getFileShape()) != elements(parameter.getFactoredShape()) ||
      parameter.getPermutation().size() != rank || !isPermutationVector(parameter.getPermutation()) ||
      parameter.getDimNames().size() != rank)
    fail(path, "parameter '" + parameter.getName().str() +
                   "': factored must have the elements of file, and permutation and dims an entry for each of its "
                   "dimensions");
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
  auto vocabulary = module->getAttrOfType<DictionaryAttr>(dt::module_attr::symbols).getAs<IntegerAttr>("vocab");
  if (!vocabulary || vocabulary.getInt() < 1)
    fail(path, "dt.symbols must say the size of the vocabulary: vocab = 256 : i64");
  for (Type type : loss.getResultTypes())
    if (type != RankedTensorType::get({}, Float32Type::get(module.getContext())))
      fail(path, "the results of @loss must be of type tensor<f32>");
  for (auto [index, attr] : llvm::enumerate(parameters)) {
    auto parameter = dyn_cast<dt::ParamAttr>(attr);
    if (!parameter)
      fail(path, "dt.parameters must hold #dt.param attributes");
    checkParameter(path, parameter);
    checkArgument(path, loss, index, dt::PortKind::Parameter, parameter.getName(), parameter.getLogicalShape());
  }
  auto tokens = dyn_cast<RankedTensorType>(loss.getArgumentTypes()[parameters.size()]);
  if (!tokens || tokens.getRank() != 2)
    fail(path, "tokens must be a tensor [batch, sequence]");
  checkArgument(path, loss, parameters.size(), dt::PortKind::Input, "tokens", tokens.getShape());
  checkArgument(path, loss, parameters.size() + 1, dt::PortKind::Input, "targets", tokens.getShape());
  checkArgument(path, loss, parameters.size() + 2, dt::PortKind::Input, "key", {4});
  return loss;
}

/// Refuses what would not finish compiling: about 5,000 layers.
static void checkLength(const std::string &path, func::FuncOp loss) {
  constexpr int64_t mostOperations = 250000;
  int64_t operations = 0;
  loss.walk([&](Operation *) { ++operations; });
  if (operations > mostOperations)
    fail(path, "@loss has " + std::to_string(operations) + " operations; more than " + std::to_string(mostOperations) +
                   " would not finish compiling");
}

Model dtc::text::load(const std::string &path, const ModelOptions &options, MLIRContext &context) {
  Model model;
  model.module = parse(path, context);
  func::FuncOp loss = checkFirstForm(path, *model.module);
  checkLength(path, loss);

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
