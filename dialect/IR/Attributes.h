// Attributes and types of the dt dialect.
#pragma once

#include "mlir/IR/Attributes.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"

#include "dialect/IR/Dialect.h.inc"
#include "dialect/IR/Enums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialect/IR/Attributes.h.inc"
#define GET_TYPEDEF_CLASSES
#include "dialect/IR/Types.h.inc"
