// An index whose row of a table is read but not trained.
#pragma once

#include "llvm/ADT/StringRef.h"

namespace mlir::dt {

/// An integer attribute of dt.gather, by default absent: where an index has this value, the table gets no gradient (as
/// PyTorch's Embedding with padding_idx). It says nothing about the operation's result, so only the gradient reads it.
inline constexpr llvm::StringLiteral paddingAttr = "dt.padding";

} // namespace mlir::dt
