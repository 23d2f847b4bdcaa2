#include "tools/verify/LogicalProgram.h"

#include "dialect/IR/Names.h"
#include "mlir/IR/Diagnostics.h"
#include "runtime/support/error.h"

using namespace mlir;
using namespace mlir::dt;

namespace dtc::verify {

static LogicalProgram::Port portOf(func::FuncOp function, StringRef what, unsigned index, Type type, PortAttr port) {
  if (!port)
    throw Error(ExitCode::BadInput, (what + " " + Twine(index) + " of @" + function.getName() +
                                     " has no dt.port: verify needs a module that passes dt-verify-what")
                                        .str());
  return {TensorKey::of(port), cast<RankedTensorType>(type), port.getSource()};
}

LogicalProgram::LogicalProgram(ModuleOp module) {
  for (auto op : module.getOps<func::FuncOp>()) {
    Function &function = functions[op.getName().str()];
    function.op = op;
    for (auto [i, type] : llvm::enumerate(op.getArgumentTypes()))
      function.arguments.push_back(portOf(op, "argument", i, type, argumentPort(op, i)));
    for (auto [i, type] : llvm::enumerate(op.getResultTypes()))
      function.results.push_back(portOf(op, "result", i, type, resultPort(op, i)));
  }
}

const LogicalProgram::Function &LogicalProgram::find(std::string_view name) const {
  auto function = functions.find(name);
  if (function == functions.end())
    throw Error(ExitCode::BadInput, "the logical module has no function @" + std::string(name));
  return function->second;
}

bool LogicalProgram::has(std::string_view function) const { return functions.find(function) != functions.end(); }
const std::vector<LogicalProgram::Port> &LogicalProgram::arguments(std::string_view function) const {
  return find(function).arguments;
}
const std::vector<LogicalProgram::Port> &LogicalProgram::results(std::string_view function) const {
  return find(function).results;
}

int64_t LogicalProgram::samples() const {
  for (const auto &[name, function] : functions)
    for (const Port &port : function.arguments)
      if (port.source && port.source.isOfSamples())
        return port.type.getDimSize(0);
  return 0;
}

void LogicalProgram::run(std::string_view name) {
  const Function &function = find(name);
  HostTensors arguments;
  for (const Port &port : function.arguments) {
    auto tensor = tensors.find(port.key);
    if (tensor == tensors.end())
      throw Error(ExitCode::BadInput,
                  "@" + std::string(name) + " reads the " + port.key.describe() + ", which nothing has written yet");
    arguments.push_back(tensor->second);
  }
  func::FuncOp op = function.op;
  std::string problem;
  ScopedDiagnosticHandler handler(op->getContext(), [&](Diagnostic &diagnostic) { problem = diagnostic.str(); });
  FailureOr<HostTensors> results = interpret(op, arguments);
  if (failed(results))
    throw Error("the logical program's @" + std::string(name) + " cannot be interpreted: " + problem);
  for (auto [port, tensor] : llvm::zip(function.results, *results))
    tensors[port.key] = tensor;
}

} // namespace dtc::verify
