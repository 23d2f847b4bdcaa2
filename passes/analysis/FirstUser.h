// Where in a block a value is needed.
#pragma once

#include "mlir/IR/Operation.h"

namespace dtc {

/// The first of a value's users in its block, or null where it has none. All are in one block, as in every function of
/// the dialect.
inline mlir::Operation *firstUser(mlir::Value value) {
  mlir::Operation *first = nullptr;
  for (mlir::Operation *user : value.getUsers())
    if (!first || user->isBeforeInBlock(first))
      first = user;
  return first;
}

} // namespace dtc
