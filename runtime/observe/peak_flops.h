// The peak multiplication rate of this machine: the denominator of model FLOP utilisation.
#pragma once

namespace dtc {

/// f32 floating-point operations per second of one core, measured for some ten milliseconds: independent fused
/// multiply-adds on registers, on the widest vectors of this CPU.
double measurePeakFlops();

/// What one of `ranks` ranks with `threads` threads each can reach on a machine of `cores` cores that do `peakOfCore`
/// each: one core per thread, as long as there are enough cores.
double peakShare(double peakOfCore, int threads, int cores, int ranks);

} // namespace dtc
