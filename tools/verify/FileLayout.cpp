#include "tools/verify/FileLayout.h"

#include "dialect/IR/Attributes.h"
#include "dialect/IR/Names.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "runtime/abi/marks.h"
#include "runtime/abi/tensors.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir::dt;

namespace dtc::verify {

/// "[2, 3]".
template <typename Range> static std::string listText(const Range &values) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << '[';
  llvm::interleaveComma(values, stream);
  stream << ']';
  return text;
}

static std::string_view initText(abi::Init::Kind kind) {
  return kind == abi::Init::ZEROS ? "zeros" : kind == abi::Init::ONES ? "ones" : "normal";
}

/// What differs between two descriptions of a parameter, or nothing.
static std::string findDifference(ParamAttr model, const abi::Parameter &program, const abi::Manifest &manifest) {
  std::string difference;
  auto compare = [&](const char *what, const std::string &stated, const std::string &expected) {
    if (difference.empty() && stated != expected)
      difference = std::string(what) + " is " + stated + ", the model's is " + expected;
  };
  auto number = [](double value) { // every digit counts
    std::string text;
    llvm::raw_string_ostream(text) << llvm::format("%.17g", value);
    return text;
  };
  compare("its name", program.name(), model.getName().str());
  compare("the list of its other names in files", listText(program.tied_names()),
          listText(llvm::map_range(model.getTiedNames(), [](mlir::StringAttr name) { return name.getValue(); })));
  compare("the shape in the file", listText(program.file_shape()), listText(model.getFileShape()));
  compare("the factored shape", listText(program.factored_shape()), listText(model.getFactoredShape()));
  compare("the permutation", listText(program.permutation()), listText(model.getPermutation()));
  compare("the logical shape", listText(program.logical_shape()), listText(model.getLogicalShape()));
  compare("the names of its dimensions", listText(program.dim_names()),
          listText(llvm::map_range(model.getDimNames(), [](mlir::StringAttr name) { return name.getValue(); })));
  compare("the initialisation", std::string(initText(program.init().kind())), model.getInit().getValue().str());
  compare("the standard deviation", number(program.init().stddev()), number(model.getStddev().getValueAsDouble()));
  compare("weight decay", program.decays() ? "on" : "off", model.getDecays() ? "on" : "off");
  compare("the layer", program.has_layer() ? abi::layerName(manifest, program.layer()) : "none",
          model.getLayer() ? model.getLayer().fullName() : "none");
  return difference;
}

static std::string findStateDifference(const abi::Manifest &manifest, const abi::Role &role) {
  for (const abi::Tensor &tensor : role.tensors()) {
    if (!abi::isOfParameter(tensor))
      continue;
    int parameter = tensor.parameter();
    if (parameter < 0 || parameter >= manifest.parameters_size() ||
        manifest.parameters(parameter).name() != tensor.name())
      return "tensor '" + tensor.name() + "' belongs to parameter " + std::to_string(parameter) +
             ", which is not the one of its name";
    if (listText(tensor.global_shape()) != listText(manifest.parameters(parameter).logical_shape()))
      return "tensor '" + tensor.name() + "' has the shape " + listText(tensor.global_shape()) + ", its parameter " +
             listText(manifest.parameters(parameter).logical_shape());
  }
  return "";
}

std::string findParameterDifference(mlir::ModuleOp logical, const abi::Manifest &manifest) {
  auto parameters = logical->getAttrOfType<mlir::ArrayAttr>(module_attr::parameters);
  int64_t count = parameters ? int64_t(parameters.size()) : 0;
  if (count != manifest.parameters_size())
    return "the program has " + std::to_string(manifest.parameters_size()) + " parameters, the model " +
           std::to_string(count);
  if (count == 0)
    return "";
  for (auto [model, program] : llvm::zip_equal(parameters.getAsRange<ParamAttr>(), manifest.parameters()))
    if (std::string difference = findDifference(model, program, manifest); !difference.empty())
      return "parameter " + model.getName().getValue().str() + ": " + difference;
  for (const abi::Role &role : manifest.roles())
    if (std::string difference = findStateDifference(manifest, role); !difference.empty())
      return difference;
  return "";
}

} // namespace dtc::verify
