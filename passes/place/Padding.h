// What padding holds after an operation.
#pragma once

#include "passes/place/LocalValues.h"

namespace dtc {

/// What every padding element of a result holds, when it follows from the operands' padding: an elementwise operation's
/// value there, or zero for operations that are linear in what is padded. `operands` are the versions used.
std::optional<double> paddingOfResult(mlir::dt::FactorOpInterface op, const Iteration &iteration, const AxisTable &axes,
                                      llvm::ArrayRef<Version> operands, unsigned result);

/// Whether some split of the factor leaves padding.
bool isPaddedFactor(const Iteration &iteration, const AxisTable &axes, int factor);

} // namespace dtc
