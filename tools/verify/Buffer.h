// Memory of the command-list interpreter: an arena in f64, one double for each four-byte element.
#pragma once

#include "runtime/abi/error.h"

#include <cstdint>
#include <limits>
#include <string>

namespace dtc::verify {

/// What memory holds that nothing has written: NaN, so that reading it shows.
inline constexpr double unwritten = std::numeric_limits<double>::quiet_NaN();

/// A command or a list that cannot be right, whatever the data: what the interpreter refuses to run.
class ProgramFault : public Error {
public:
  explicit ProgramFault(const std::string &message) : Error(ExitCode::Runtime, message) {}
};

/// A part of an arena that one launch may touch.
struct Buffer {
  double *data = nullptr;
  int64_t size = 0;

  /// Throws ProgramFault unless the elements [0, extent) lie within.
  void require(int64_t extent) const {
    if (extent > size)
      throw ProgramFault("reaches element " + std::to_string(extent - 1) + " of a buffer of " + std::to_string(size));
  }
  double &at(int64_t index) const {
    if (index < 0 || index >= size)
      throw ProgramFault("reaches element " + std::to_string(index) + " of a buffer of " + std::to_string(size));
    return data[index];
  }
};

} // namespace dtc::verify
