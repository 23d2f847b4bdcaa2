// Models written in the dialect's own text.
#include "frontends/text/Text.h"
#include "frontends/text/Nesting.h"

#include "dialect/IR/Names.h"
#include "dialect/IR/Ops.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "runtime/abi/outputs.h"
#include "runtime/support/error.h"
#include "runtime/support/mapped_file.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/raw_ostream.h"

using namespace dtc;
using namespace mlir;

[[noreturn]] static void fail(const std::string &path, const std::string &problem) {
  throw Error(ExitCode::BadInput, path + ": " + problem);
}

/// The file's text, once it is checked for everything that would end the process in MLIR's parser.
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

static std::string argumentText(unsigned index) { return "argument " + std::to_string(index) + " of @loss"; }

static void checkParameterArgument(const std::string &path, func::FuncOp loss, unsigned index,
                                   dt::ParamAttr parameter) {
  std::string where = argumentText(index);
  MLIRContext *context = loss.getContext();
  if (dt::argumentPort(loss, index) != dt::PortAttr::get(context, dt::PortKind::Parameter, parameter.getName()))
    fail(path, where + " must carry dt.port = #dt.port<parameter \"" + parameter.getName().str() + "\">");
  if (loss.getArgumentTypes()[index] != RankedTensorType::get(parameter.getLogicalShape(), Float32Type::get(context)))
    fail(path, where + " (" + parameter.getName().str() + ") must be a tensor of f32 in the shape of its declaration");
}

/// Checks that an input says where it is from. `samples` is the type of the inputs that are cut from samples, null
/// before the first. `taken`: names that it may not have.
static void checkInput(const std::string &path, func::FuncOp loss, unsigned index, RankedTensorType &samples,
                       llvm::StringSet<> &taken) {
  std::string where = argumentText(index);
  dt::PortAttr port = dt::argumentPort(loss, index);
  if (!port || !port.getSource() || !(port.getSource().isOfSamples() || port.isFrom(dt::SourceKind::Key)))
    fail(path, where + " must be an input that says its source: dt.port = #dt.port<input \"NAME\" from tokens>, or "
                       "from next_tokens or key; the parameters stand before them");
  if (!taken.insert(port.getName()).second)
    fail(path, where + ": another tensor is called '" + port.getName().str() + "' already");
  auto number = IntegerType::get(loss.getContext(), 32);
  auto type = dyn_cast<RankedTensorType>(loss.getArgumentTypes()[index]);
  if (port.isFrom(dt::SourceKind::Key)) {
    if (type != RankedTensorType::get({4}, number))
      fail(path, where + " (" + port.getName().str() + ", from key) must be a tensor<4xi32>");
    return;
  }
  if (!type || type.getRank() != 2 || type.getElementType() != number || (samples && type != samples))
    fail(path, where + " (" + port.getName().str() +
                   ") must be a tensor [batch, sequence] of i32, as all inputs of tokens");
  samples = type;
}

/// Checks that the mapping between a parameter's logical tensor and its tensor in the file is a bijection.
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

static llvm::StringSet<> namesOf(ArrayAttr parameters) {
  llvm::StringSet<> names;
  for (auto parameter : parameters.getAsRange<dt::ParamAttr>())
    names.insert(parameter.getName());
  return names;
}

/// Checks that each tensor of a file belongs to one parameter.
static void checkTiedNames(const std::string &path, ArrayAttr parameters) {
  llvm::StringSet<> names = namesOf(parameters);
  for (auto parameter : parameters.getAsRange<dt::ParamAttr>())
    for (StringAttr tied : parameter.getTiedNames())
      if (tied.empty() || !names.insert(tied).second)
        fail(path, "parameter '" + parameter.getName().str() + "' is tied to the name '" + tied.str() +
                       "', which is empty or taken");
}

/// Checks the first form. Returns the type of the inputs that are cut from samples.
static RankedTensorType checkFirstForm(const std::string &path, ModuleOp module) {
  auto loss = module.lookupSymbol<func::FuncOp>(dt::function::loss);
  auto parameters = module->getAttrOfType<ArrayAttr>(dt::module_attr::parameters);
  if (!loss || loss.isExternal() || !parameters || !module->getAttrOfType<StringAttr>(dt::module_attr::model) ||
      !module->getAttrOfType<DictionaryAttr>(dt::module_attr::symbols))
    fail(path, "a model in text needs the attributes dt.model, dt.symbols and dt.parameters and a function @loss");
  constexpr unsigned numResults = 2;
  if (loss.getNumArguments() < parameters.size() || loss.getNumResults() != numResults)
    fail(path, "@loss must take the " + std::to_string(parameters.size()) +
                   " parameters of dt.parameters, then its inputs, and return the loss's sum and the token count");
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
    checkParameterArgument(path, loss, index, parameter);
  }
  checkTiedNames(path, parameters);
  RankedTensorType samples;
  llvm::StringSet<> taken = namesOf(parameters);
  for (const abi::Output *output : abi::output::all)
    taken.insert(output->name);
  for (unsigned index = parameters.size(); index < loss.getNumArguments(); ++index)
    checkInput(path, loss, index, samples, taken);
  if (!samples)
    fail(path, "@loss has no input of tokens or next tokens, so that it would learn from no data");
  return samples;
}

/// Refuses functions that would never finish compiling: about 5,000 layers.
static void checkLength(const std::string &path, func::FuncOp loss) {
  constexpr int64_t mostOperations = 250000;
  int64_t operations = 0;
  loss.walk([&](Operation *) { ++operations; });
  if (operations > mostOperations)
    fail(path, "@loss has " + std::to_string(operations) + " operations; more than " + std::to_string(mostOperations) +
                   " would not finish compiling");
}

Model dtc::text::load(const std::string &path, const ModelOptions &options, MLIRContext &context) {
  if (options.generation)
    fail(path, "a model in text has no functions that generate; give a directory with a config.json");
  Model model;
  model.module = parse(path, context);
  ArrayRef<int64_t> rows = checkFirstForm(path, *model.module).getShape();
  checkLength(path, model.module->lookupSymbol<func::FuncOp>(dt::function::loss));

  if (options.dropout)
    fail(path, "the dropout of a model in text is what its operations say: leave model.dropout unset");
  if (!options.symbols.empty())
    fail(path,
         "the sizes of a model in text are fixed, so '" + options.symbols.begin()->first + "' cannot be replaced");
  if (rows[0] != options.batch || (options.sequence && rows[1] != options.sequence))
    fail(path, "the text is written for micro-batches of " + std::to_string(rows[0]) + " rows of " +
                   std::to_string(rows[1]) + " tokens; training asks for " + std::to_string(options.batch) + " of " +
                   std::to_string(options.sequence ? options.sequence : rows[1]));
  return model;
}
