// How fast could this machine multiply? The denominator of model FLOP utilisation.
#pragma once

namespace dtc {

/// f32 floating-point operations per second of one core, measured for some ten milliseconds: independent fused
/// multiply-adds on registers, on the widest vectors of this CPU.
double measurePeakFlops();

/// What one of `ranks` ranks with `threads` threads each can reach on a machine of `cores` cores that do `peakOfCore`
/// each: a core a thread, while there are enough of them.
double peakShare(double peakOfCore, int threads, int cores, int ranks);

} // namespace dtc
