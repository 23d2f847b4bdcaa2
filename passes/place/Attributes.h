// Names of the attributes by which the passes of this phase speak to each other and to the next; see Dialect.td.
#pragma once

#include "mlir/IR/Operation.h"

namespace dtc {

/// On operations, between propagation and partitioning: how each factor is split (a dt.sharding whose dimensions are
/// the factors), and the compute placements of the results.
inline constexpr llvm::StringLiteral iterationAttr = "dt.iteration", shardingsAttr = "dt.shardings";

/// Takes both off an operation; in one step, since each change of its attributes makes a new dictionary of them.
inline void dropPlacement(mlir::Operation *op) {
  mlir::SmallVector<mlir::NamedAttribute> rest;
  for (mlir::NamedAttribute attribute : op->getDiscardableAttrDictionary())
    if (attribute.getName() != iterationAttr && attribute.getName() != shardingsAttr)
      rest.push_back(attribute);
  op->setDiscardableAttrs(mlir::DictionaryAttr::getWithSorted(op->getContext(), rest));
}

} // namespace dtc
