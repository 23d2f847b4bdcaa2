// The ports of a function's arguments and results, changed together.
#pragma once

#include "dialect/IR/Names.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dtc {

/// A copy of all ports (and dimension names, which arguments may have). Setting them on the function one by one takes
/// time quadratic in their number, which for the update of a large model is thousands.
class Boundary {
public:
  explicit Boundary(mlir::func::FuncOp function) : function(function) {
    mlir::FunctionOpInterface interface = function;
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      arguments.push_back(mlir::dt::argumentPort(interface, i));
      dims.push_back(interface.getArgAttrOfType<mlir::ArrayAttr>(i, mlir::dt::dimsAttr));
    }
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      results.push_back(mlir::dt::resultPort(interface, i));
  }

  /// Writes everything back.
  void write() {
    mlir::Builder builder(function.getContext());
    mlir::StringAttr dimsName = builder.getStringAttr(mlir::dt::dimsAttr);
    mlir::StringAttr portName = builder.getStringAttr(mlir::dt::portAttr);
    auto dictionary = [&](mlir::dt::PortAttr port, mlir::ArrayAttr names) {
      llvm::SmallVector<mlir::NamedAttribute, 2> list;
      if (names)
        list.emplace_back(dimsName, names);
      list.emplace_back(portName, port);
      return mlir::DictionaryAttr::getWithSorted(port.getContext(), list);
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
