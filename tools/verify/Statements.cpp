#include "tools/verify/Statements.h"

#include "dialect/IR/ElementTypes.h"
#include "dialect/IR/Sources.h"
#include "dialect/IR/StepFunctions.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "runtime/abi/sources.h"
#include "runtime/abi/tensors.h"
#include "runtime/abi/timetables.h"
#include "tools/verify/CommandSubject.h"
#include "tools/verify/LogicalProgram.h"
#include "llvm/ADT/StringExtras.h"

#include <map>

using namespace mlir::dt;

namespace dtc::verify {

abi::Role timetableOf(int64_t accumulation, bool hasCopies) {
  abi::Role role;
  auto add = [&](const StepFunction &function) -> abi::TimetableEntry & {
    abi::TimetableEntry &entry = *abi::timetableIn(role, function.timetable).add_period();
    entry.set_list(function.name.str());
    return entry;
  };
  for (int64_t micro = 0; micro < accumulation; ++micro)
    add(functionOfMicroBatch(micro, accumulation)).set_micro_batch(micro);
  for (const StepFunction &function : stepFunctions) {
    bool generates = function.timetable == abi::promptTimetable || function.timetable == abi::generationTimetable;
    bool isOfDefinition = function.name != mlir::dt::function::assume; // which steps that overlap add
    if (function.microBatches != MicroBatches::None || generates || !isOfDefinition ||
        (function.timetable == abi::refreshTimetable && !hasCopies))
      continue;
    abi::TimetableEntry &entry = add(function);
    if (function.task == Task::Forward)
      entry.set_micro_batch(0);
  }
  return role;
}

abi::Role generationTimetables(bool hasCaches) {
  abi::Role role;
  for (const StepFunction &function : stepFunctions)
    if (function.timetable == abi::promptTimetable || (hasCaches && function.timetable == abi::generationTimetable))
      abi::timetableIn(role, function.timetable).add_period()->set_list(function.name.str());
  return role;
}

bool hasCopies(const abi::Manifest &manifest) {
  return llvm::any_of(manifest.roles(), [](const abi::Role &role) {
    return llvm::any_of(role.tensors(), abi::isCopy);
  });
}

/// "micro 0, micro_last 1, update".
static std::string timetableText(const abi::Timetable &timetable) {
  std::string text;
  auto isAny = [](uint32_t number) { return number != 0; };
  auto joined = [](const auto &numbers) {
    return llvm::join(llvm::map_range(numbers, [](uint32_t number) { return std::to_string(number); }), " ");
  };
  for (const abi::TimetableEntry &entry : timetable.period()) {
    text += (text.empty() ? "" : ", ") + entry.list();
    if (entry.has_micro_batch())
      text += " " + std::to_string(entry.micro_batch());
    if (entry.stage() != 0 || entry.step() != 0 || entry.beside())
      text += " of stage " + std::to_string(entry.stage()) + " and step " + std::to_string(entry.step()) +
              (entry.beside() ? " beside the one before" : "");
    if (llvm::any_of(entry.places(), isAny))
      text += " in places " + joined(entry.places());
    if (llvm::any_of(entry.turns(), isAny))
      text += " in turns of " + joined(entry.turns());
  }
  return text;
}

std::string findTimetableDifference(const abi::Role &role, const abi::Role &expected) {
  for (const abi::Role *either : {&role, &expected})
    for (const abi::Timetable &timetable : either->timetables()) {
      std::string stated = timetableText(abi::timetableOf(role, timetable.name()));
      std::string right = timetableText(abi::timetableOf(expected, timetable.name()));
      if (stated != right)
        return "its " + timetable.name() + " runs " + stated + "; the model's: " + right;
    }
  return "";
}

static std::string sizesText(const std::map<std::string, int64_t> &sizes) {
  std::string text;
  for (const auto &[name, size] : sizes)
    text += (text.empty() ? "" : ", ") + name + " " + std::to_string(size);
  return text;
}

static std::string shapeText(llvm::ArrayRef<int64_t> shape) {
  std::string text = "[";
  for (int64_t size : shape)
    text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

/// "[4, 8] of i32".
static std::string typeText(llvm::ArrayRef<int64_t> shape, abi::DataType type) {
  return shapeText(shape) + " of " + abi::nameOf(type);
}

/// What differs between a tensor of the model and the program's tensor of that name.
static std::string findPortDifference(const LogicalProgram::Port &port, const abi::Tensor &tensor) {
  llvm::ArrayRef<int64_t> shape(tensor.global_shape().data(), tensor.global_shape_size());
  std::string stated = typeText(shape, tensor.type());
  std::string expected = typeText(port.type.getShape(), elementTypeOf(port.type).type);
  if (stated != expected)
    return port.key.describe() + " is " + stated + ", the model's is " + expected;
  stated = abi::describe(tensor.source());
  expected = abi::describe(abiSourceOf(port.source));
  return stated == expected ? "" : port.key.describe() + " is from " + stated + ", the model's is from " + expected;
}

static std::string findPortDifference(const LogicalProgram::Port &port, const abi::Manifest &manifest) {
  for (const abi::Role &role : manifest.roles())
    if (const abi::Tensor *tensor = findTensor(role, port.key)) // the lists show whether it is needed
      if (std::string difference = findPortDifference(port, *tensor); !difference.empty())
        return difference;
  return "";
}

std::string findStatementDifference(mlir::ModuleOp logical, const abi::Manifest &manifest) {
  auto compare = [](const char *what, const std::string &stated, const std::string &expected) {
    return stated == expected ? "" : std::string(what) + " " + stated + "; the model's: " + expected;
  };
  if (auto model = logical->getAttrOfType<mlir::StringAttr>(module_attr::model))
    if (std::string difference = compare("the model's name is", manifest.model_name(), model.str());
        !difference.empty())
      return difference;

  std::map<std::string, int64_t> stated, expected;
  for (const abi::Symbol &symbol : manifest.symbols())
    stated[symbol.name()] = symbol.size();
  if (auto symbols = logical->getAttrOfType<mlir::DictionaryAttr>(module_attr::symbols))
    for (mlir::NamedAttribute symbol : symbols)
      expected[symbol.getName().str()] = mlir::cast<mlir::IntegerAttr>(symbol.getValue()).getInt();
  if (std::string difference = compare("the sizes are", sizesText(stated), sizesText(expected)); !difference.empty())
    return difference;

  LogicalProgram program(logical);
  for (auto function : logical.getOps<mlir::func::FuncOp>())
    for (const auto *ports : {&program.arguments(function.getName()), &program.results(function.getName())})
      for (const LogicalProgram::Port &port : *ports)
        if (std::string difference = findPortDifference(port, manifest); !difference.empty())
          return difference;
  return "";
}

} // namespace dtc::verify
