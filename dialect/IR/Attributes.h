// Attributes and types of the dt dialect.
#pragma once

#include "runtime/abi/rotary.h"

#include "mlir/IR/Attributes.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"

#include "dialect/IR/Dialect.h.inc"
#include "dialect/IR/Enums.h.inc"

namespace mlir::dt {
/// What identifies one tensor in all functions, whatever its placement: a port's kind, name and slot.
struct PortIdentity {
  PortKind kind;
  StringAttr name, slot;

  bool operator==(const PortIdentity &) const = default;
};
} // namespace mlir::dt

#define GET_ATTRDEF_CLASSES
#include "dialect/IR/Attributes.h.inc"
#define GET_TYPEDEF_CLASSES
#include "dialect/IR/Types.h.inc"

/// Lets a port's identity be the key of a DenseMap.
template <> struct llvm::DenseMapInfo<mlir::dt::PortIdentity> {
  using Name = DenseMapInfo<mlir::StringAttr>;

  static mlir::dt::PortIdentity getEmptyKey() { return {{}, Name::getEmptyKey(), {}}; }
  static mlir::dt::PortIdentity getTombstoneKey() { return {{}, Name::getTombstoneKey(), {}}; }
  static unsigned getHashValue(const mlir::dt::PortIdentity &port) {
    return detail::combineHashValue(Name::getHashValue(port.name),
                                    Name::getHashValue(port.slot) + static_cast<unsigned>(port.kind));
  }
  static bool isEqual(const mlir::dt::PortIdentity &a, const mlir::dt::PortIdentity &b) { return a == b; }
};
