// Names of what the forward pass of a layer makes: like the names of commands in orders, without part and layer.
// "contract attn.c_attn" is the product at h.*.attn.c_attn, "mul layer_norm ln_1" a step of a norm's formula. If
// several have one name, the second is "... #2", in the order of the forward pass. So equal layers have equal names,
// whatever their sizes.
#pragma once

#include "mlir/IR/Block.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseMap.h"

#include <string>

namespace dtc {

class ValueNames {
public:
  explicit ValueNames(mlir::Block &block);

  /// The name of all that an operation makes; empty outside the layers and outside the forward pass.
  llvm::StringRef nameOf(mlir::Operation *op) const;

private:
  llvm::DenseMap<mlir::Operation *, std::string> names;
};

} // namespace dtc
