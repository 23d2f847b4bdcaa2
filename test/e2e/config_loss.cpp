// Answers, line by line, with the loss of the model in a directory: {"directory", "tokens"} -> {"loss"} or {"refused"}.
// The frontend reads config.json and weights as the driver does, and the interpreter runs @loss in f64. One process
// serves all cases of config_run_test.py and oracle/fuzz_config.py, which saves them a compiler and a linker.
#include "dialect/IR/Names.h"
#include "dialect/reference/Interpreter.h"
#include "frontends/Frontend.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "runtime/support/error.h"
#include "test/e2e/published_weights.h"

#include <nlohmann/json.hpp>

#include <iostream>

using namespace mlir;
using namespace mlir::dt;
using nlohmann::json;

/// The mean over all targets, which are the tokens shifted by one.
static double lossOf(const std::string &directory, const std::vector<int64_t> &tokens, MLIRContext &context) {
  auto sequence = static_cast<int64_t>(tokens.size()) - 1;
  dtc::load(directory, {.batch = 1, .sequence = sequence}, context); // may refuse the model's own dropout
  dtc::Model model = dtc::load(directory, {.batch = 1, .sequence = sequence, .dropout = 0}, context);
  dtc::SafetensorsModel weights(directory);
  auto parameters = (*model.module)->getAttrOfType<ArrayAttr>(module_attr::parameters).getAsRange<ParamAttr>();
  auto loss = model.module->lookupSymbol<func::FuncOp>(function::loss);
  HostTensors arguments;
  for (ParamAttr parameter : parameters)
    arguments.push_back(dtc::toLogical(parameter, dtc::floatsOf(weights.find(parameter.getName().str()))));
  for (unsigned i = arguments.size(); i < loss.getNumArguments(); ++i) {
    HostTensor input(cast<RankedTensorType>(loss.getArgumentTypes()[i]).getShape());
    PortAttr port = argumentPort(loss, i);
    bool isNext = port.isFrom(SourceKind::NextTokens);
    if (isNext || port.isFrom(SourceKind::Tokens))
      for (int64_t place = 0; place < sequence; ++place)
        input[place] = static_cast<double>(tokens[place + isNext]);
    arguments.push_back(input);
  }
  FailureOr<HostTensors> results = interpret(loss, arguments);
  if (failed(results))
    throw std::runtime_error("the interpreter failed");
  return (*results)[0][0] / (*results)[1][0];
}

int main() {
  DialectRegistry registry;
  dtc::registerFrontendDialects(registry);
  for (std::string line; std::getline(std::cin, line);) {
    json request = json::parse(line), answer;
    MLIRContext context(registry, MLIRContext::Threading::DISABLED);
    context.loadAllAvailableDialects();
    try {
      answer["loss"] = lossOf(request["directory"], request["tokens"], context);
    } catch (const dtc::Error &error) {
      answer["refused"] = error.what();
    }
    std::cout << answer.dump() << std::endl;
  }
}
