// The weights beside a config.json, checked against the model.
#include "frontends/huggingface/Weights.h"

#include "dialect/IR/Ops.h"
#include "dialect/IR/Roles.h"
#include "runtime/abi/error.h"
#include "runtime/abi/suggest.h"
#include "runtime/checkpoint/safetensors.h"

#include <set>

using namespace dtc;
using namespace mlir;

/// Tensors that some writers store although they are no parameters: causal masks, rotary tables, and a tied output
/// projection.
static bool isRedundant(llvm::StringRef name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") || name.ends_with(".inv_freq") ||
         name == "lm_head.weight";
}

static std::string shapeText(llvm::ArrayRef<int64_t> shape) {
  std::string text = "[";
  for (int64_t size : shape)
    text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

static const SafetensorsEntry *checkParameter(const SafetensorsModel &weights, dt::ParamAttr parameter,
                                              const std::vector<std::string> &names, const std::string &directory) {
  std::string name = parameter.getName().str();
  SafetensorsModel::Found found = weights.find(name);
  if (!found)
    throw Error(ExitCode::BadInput, directory + ": the weights have no tensor '" + name +
                                        "', which config.json asks for" + didYouMean(name, names));
  const std::string &file = found.file->path();
  if (llvm::ArrayRef(found.entry->shape) != parameter.getFileShape())
    throw Error(ExitCode::BadInput, file + ": tensor '" + found.entry->name + "' has shape " +
                                        shapeText(found.entry->shape) + "; config.json makes it " +
                                        shapeText(parameter.getFileShape()));
  static const std::set<std::string> readable = {"F32", "F16", "BF16", "F64"};
  if (!readable.contains(found.entry->type))
    throw Error(ExitCode::BadInput, file + ": tensor '" + found.entry->name + "' has type " + found.entry->type +
                                        "; weights must be F32, F16, BF16 or F64");
  return found.entry;
}

bool dtc::huggingface::checkWeights(const std::string &directory, ModuleOp module) {
  if (!SafetensorsModel::present(directory))
    return false;
  SafetensorsModel weights(directory);
  std::vector<std::string> names = weights.names();
  std::set<const SafetensorsEntry *> used;
  for (Attribute attr : module->getAttrOfType<ArrayAttr>(dt::module_attr::parameters))
    used.insert(checkParameter(weights, cast<dt::ParamAttr>(attr), names, directory));
  for (const std::string &name : names)
    if (!used.contains(weights.find(name).entry) && !isRedundant(name))
      throw Error(ExitCode::BadInput,
                  directory + ": the weights hold a tensor '" + name + "' that the model of config.json lacks");
  return true;
}
