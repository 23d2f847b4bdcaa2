// Names of the attributes with which the passes of this phase talk to each other and to the next phase; see Dialect.td.
#pragma once

#include "mlir/IR/Operation.h"

namespace dtc {

/// On operations, between propagation and partitioning: how each factor is split (a dt.sharding whose dimensions are
/// the factors), and the compute placements of the results.
inline constexpr llvm::StringLiteral iterationAttr = "dt.iteration", shardingsAttr = "dt.shardings";

/// Puts both on operations, and removes them again, in one step: each change of an operation's attributes makes a new
/// dictionary of them. Operations have few different dictionaries, so each is made once. (All attributes of an
/// operation without properties are discardable, but asking for these builds their dictionary again.)
class PlacementAttributes {
public:
  explicit PlacementAttributes(mlir::MLIRContext *context)
      : iterationName(mlir::StringAttr::get(context, iterationAttr)),
        shardingsName(mlir::StringAttr::get(context, shardingsAttr)) {}

  void put(mlir::Operation *op, mlir::Attribute iteration, mlir::ArrayAttr shardings) {
    mlir::DictionaryAttr plain = op->getRawDictionaryAttrs(), &placed = with[{plain, iteration, shardings}];
    if (!placed) {
      mlir::NamedAttrList attributes(plain);
      attributes.set(iterationName, iteration);
      attributes.set(shardingsName, shardings);
      placed = attributes.getDictionary(op->getContext());
    }
    op->setDiscardableAttrs(placed);
  }

  void drop(mlir::Operation *op) {
    mlir::DictionaryAttr placed = op->getRawDictionaryAttrs(), &plain = without[placed];
    if (!plain) {
      mlir::NamedAttrList attributes(placed);
      attributes.erase(iterationName);
      attributes.erase(shardingsName);
      plain = attributes.getDictionary(op->getContext());
    }
    op->setDiscardableAttrs(plain);
  }

private:
  mlir::StringAttr iterationName, shardingsName;
  llvm::DenseMap<std::tuple<mlir::Attribute, mlir::Attribute, mlir::Attribute>, mlir::DictionaryAttr> with;
  llvm::DenseMap<mlir::Attribute, mlir::DictionaryAttr> without;
};

} // namespace dtc
