// What each rank sends to all others after a step, in one number.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace dtc {

struct StepNews {
  int signal = 0;  ///< the signal that asked this rank to stop; 0: none
  int phases = 0;  ///< of the checkpoint in progress that this rank has finished
  int failure = 0; ///< exit code if the checkpoint failed on this rank; 0: it did not
  /// The interval in steps between comparisons of replicas that this rank proposes, up to MostInterval; 0: not known
  /// yet.
  int64_t interval = 0;
  double computed = 0; ///< seconds that this rank computed in the step, up to an hour; sent with 5 digits

  static constexpr int64_t MostInterval = (int64_t(1) << 20) - 1;

  int64_t pack() const {
    auto bits = static_cast<uint64_t>(signal | phases << 8 | failure << 16);
    return static_cast<int64_t>(bits | static_cast<uint64_t>(interval) << 24 | codeOf(computed) << 44);
  }
  static StepNews unpack(int64_t packed) {
    auto bits = static_cast<uint64_t>(packed);
    auto byteAt = [&](int bit) { return static_cast<int>(bits >> bit & 0xff); };
    return {byteAt(0), byteAt(8), byteAt(16), static_cast<int64_t>(bits >> 24 & MostCode), secondsOf(bits >> 44)};
  }

private:
  /// The largest 20-bit code; a code is the logarithm of microseconds in steps of 2^-15.
  static constexpr uint64_t MostCode = (uint64_t(1) << 20) - 1;
  static constexpr double CodesAnOctave = 1 << 15, Microseconds = 1e6;
  static uint64_t codeOf(double seconds) {
    double code = std::log2(1 + std::max(seconds, 0.0) * Microseconds) * CodesAnOctave;
    return std::min(static_cast<uint64_t>(std::llround(code)), MostCode);
  }
  static double secondsOf(uint64_t code) {
    return (std::exp2(static_cast<double>(code) / CodesAnOctave) - 1) / Microseconds;
  }
};

} // namespace dtc
