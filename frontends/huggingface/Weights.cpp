// The weights next to a config.json, checked against the model.
#include "frontends/huggingface/Weights.h"

#include "dialect/IR/Names.h"
#include "dialect/IR/Ops.h"
#include "runtime/support/error.h"
#include "runtime/support/suggest.h"
#include "runtime/weights/model_directory.h"

#include <fmt/format.h>

#include <set>

using namespace dtc;
using namespace mlir;

static void checkParameter(const SafetensorsModel &weights, dt::ParamAttr parameter,
                           const std::vector<std::string> &names, const std::string &directory) {
  std::string name = parameter.getName().str();
  SafetensorsModel::Found found = weights.find(name);
  if (!found)
    throw Error(ExitCode::BadInput, fmt::format("{}: the weights have no tensor '{}', which config.json asks for{}",
                                                directory, name, didYouMean(name, names)));
  const SafetensorsEntry &entry = *found.entry;
  if (llvm::ArrayRef(entry.shape) != parameter.getFileShape())
    throw Error(ExitCode::BadInput,
                fmt::format("{}: tensor '{}' has shape [{}]; config.json makes it [{}]", found.file->path(), entry.name,
                            fmt::join(entry.shape, ", "), fmt::join(parameter.getFileShape(), ", ")));
  static const std::set<std::string> readable = {"F32", "F16", "BF16", "F64"};
  if (!readable.contains(entry.type))
    throw Error(ExitCode::BadInput, fmt::format("{}: tensor '{}' has type {}; weights must be F32, F16, BF16 or F64",
                                                found.file->path(), entry.name, entry.type));
}

bool dtc::huggingface::checkWeights(const std::string &directory, ModuleOp module) {
  if (!hasWeights(directory))
    return false;
  SafetensorsModel weights(directory);
  std::vector<std::string> names = weights.names();
  std::vector<ParameterNames> parameters;
  for (auto parameter : module->getAttrOfType<ArrayAttr>(dt::module_attr::parameters).getAsRange<dt::ParamAttr>()) {
    checkParameter(weights, parameter, names, directory);
    ParameterNames &own = parameters.emplace_back(parameter.getName().str());
    for (StringAttr tied : parameter.getTiedNames())
      own.tied.push_back(tied.str());
  }
  requireKnownTensors(weights, parameters, directory);
  return true;
}
