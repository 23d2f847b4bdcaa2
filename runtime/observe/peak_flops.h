// How fast could this machine multiply? The denominator of model FLOP utilisation.
#pragma once

namespace dtc {

/// f32 floating-point operations per second of one core, measured for some ten milliseconds: independent fused
/// multiply-adds on registers, on the widest vectors of this CPU.
double measurePeakFlops();

} // namespace dtc
