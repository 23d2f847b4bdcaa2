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
        dims(function.getNumArguments()) {
    mlir::Builder builder(function.getContext());
    mlir::StringAttr portName = builder.getStringAttr(mlir::dt::portAttr);
    mlir::StringAttr dimsName = builder.getStringAttr(mlir::dt::dimsAttr);
    // Names are compared as attributes: as strings it takes three times as long.
    auto find = [](mlir::Attribute list, mlir::StringAttr name) {
      for (mlir::NamedAttribute each : llvm::cast<mlir::DictionaryAttr>(list))
        if (each.getName() == name)
          return each.getValue();
      return mlir::Attribute();
    };
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

  /// Writes everything back.
  void write(Written &known) {
    mlir::Builder builder(function.getContext());
    mlir::StringAttr dimsName = builder.getStringAttr(mlir::dt::dimsAttr);
    mlir::StringAttr portName = builder.getStringAttr(mlir::dt::portAttr);
    auto dictionary = [&](mlir::dt::PortAttr port, mlir::ArrayAttr names) {
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
    for (auto [port, names] : llvm::zip_equal(arguments, dims))
      ofArguments.push_back(dictionary(port, names));
    for (mlir::dt::PortAttr port : results)
      ofResults.push_back(dictionary(port, {}));
    function.setAllArgAttrs(ofArguments);
    function.setAllResultAttrs(ofResults);
  }

  mlir::func::FuncOp function;
  std::vector<mlir::dt::PortAttr> arguments, results;
  std::vector<mlir::ArrayAttr> dims; ///< of arguments; null where unnamed
};

} // namespace dtc
