// Elementary functions in f32 by polynomials, on scalars and vectors alike, without calls.
#pragma once

#include "mlir/IR/Operation.h"

namespace dtc {

/// Replaces math.exp, math.log, math.tanh and math.erf on f32 within `root` by arithmetic. Errors: exp, log and tanh 2
/// units in the last place, erf 4e-7. NaN gives NaN; infinities, zeros and overflow give the functions' limits; exp
/// gives 0 below the normal numbers. `hasAvx512`: uses AVX-512 instructions where vectors fill its registers.
void expandMath(mlir::Operation *root, bool hasAvx512);

} // namespace dtc
