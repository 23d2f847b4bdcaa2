// The ports of a function's arguments and results, changed together.
#pragma once

#include "dialect/IR/Names.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dtc {

/// A copy of all ports (and dimension names, which arguments may have). Setting them on the function one by one takes
/// time quadratic in their number, which for the update of a large model is thousands.
class Boundary {
public:
  explicit Boundary(mlir::func::FuncOp function)
      : function(function), arguments(function.getNumArguments()), results(function.getNumResults()),
        dims(function.getNumArguments()), portName(mlir::StringAttr::get(function.getContext(), mlir::dt::portAttr)),
        dimsName(mlir::StringAttr::get(function.getContext(), mlir::dt::dimsAttr)) {
    if (mlir::ArrayAttr all = function.getArgAttrsAttr())
      for (auto [i, each] : llvm::enumerate(all)) {
        arguments[i] = llvm::dyn_cast_or_null<mlir::dt::PortAttr>(find(each, portName));
        dims[i] = llvm::dyn_cast_or_null<mlir::ArrayAttr>(find(each, dimsName));
      }
    if (mlir::ArrayAttr all = function.getResAttrsAttr())
      for (auto [i, each] : llvm::enumerate(all))
        results[i] = llvm::dyn_cast_or_null<mlir::dt::PortAttr>(find(each, portName));
  }

  /// Attributes of arguments and results that have been written: a port is in several functions.
  using Written = llvm::DenseMap<std::pair<mlir::Attribute, mlir::Attribute>, mlir::DictionaryAttr>;

  /// Writes back what has changed.
  void write(Written &known) {
    auto dictionary = [&](mlir::Attribute before, mlir::dt::PortAttr port, mlir::ArrayAttr names) {
      if (find(before, portName) == port && find(before, dimsName) == names)
        return llvm::cast<mlir::DictionaryAttr>(before);
      mlir::DictionaryAttr &written = known[{port, names}];
      if (written)
        return written;
      llvm::SmallVector<mlir::NamedAttribute, 2> list;
      if (names)
        list.emplace_back(dimsName, names);
      list.emplace_back(portName, port);
      return written = mlir::DictionaryAttr::getWithSorted(port.getContext(), list);
    };
    llvm::SmallVector<mlir::DictionaryAttr> ofArguments, ofResults;
    if (mlir::ArrayAttr all = function.getArgAttrsAttr())
      for (auto [before, port, names] : llvm::zip_equal(all, arguments, dims))
        ofArguments.push_back(dictionary(before, port, names));
    if (mlir::ArrayAttr all = function.getResAttrsAttr())
      for (auto [before, port] : llvm::zip_equal(all, results))
        ofResults.push_back(dictionary(before, port, {}));
    function.setAllArgAttrs(ofArguments);
    function.setAllResultAttrs(ofResults);
  }

  mlir::func::FuncOp function;
  std::vector<mlir::dt::PortAttr> arguments, results;
  std::vector<mlir::ArrayAttr> dims; ///< of arguments; null where unnamed

private:
  /// Names are compared as attributes: comparing strings takes three times as long.
  static mlir::Attribute find(mlir::Attribute list, mlir::StringAttr name) {
    for (mlir::NamedAttribute each : llvm::cast<mlir::DictionaryAttr>(list))
      if (each.getName() == name)
        return each.getValue();
    return {};
  }

  mlir::StringAttr portName, dimsName;
};

} // namespace dtc
