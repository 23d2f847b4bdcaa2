// Models written in the dialect's own text.
#pragma once

#include "frontends/Frontend.h"

namespace dtc::text {

/// Parses a .mlir file that holds a module in its first form and checks that form. The text fixes the sizes: options
/// that would change them are errors. Throws Error (BadInput) with the parser's diagnostics.
Model load(const std::string &path, const ModelOptions &options, mlir::MLIRContext &context);

} // namespace dtc::text
