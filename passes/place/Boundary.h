// Attributes of a function's arguments and results, changed together.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/place/Attributes.h"

namespace dtc {

/// A copy of all argument and result attributes. Setting them on the function one by one takes time quadratic in their
/// number, which for the update of a large model is thousands.
struct BoundaryAttributes {
  explicit BoundaryAttributes(mlir::func::FuncOp function) : function(function) {
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      arguments.push_back(mlir::NamedAttrList(function.getArgAttrDict(i)));
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      results.push_back(mlir::NamedAttrList(function.getResultAttrDict(i)));
  }

  /// Writes everything back.
  void write() {
    auto dictionary = [&](mlir::NamedAttrList &list) { return list.getDictionary(function.getContext()); };
    function.setAllArgAttrs(llvm::map_to_vector(arguments, dictionary));
    function.setAllResultAttrs(llvm::map_to_vector(results, dictionary));
  }

  mlir::func::FuncOp function;
  std::vector<mlir::NamedAttrList> arguments, results;
};

} // namespace dtc
