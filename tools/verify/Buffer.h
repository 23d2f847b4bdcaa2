// Memory of the command-list interpreter: an arena in f64.
//
// Memory is counted in units of the narrowest element type that a program has, with one double for each unit. An
// element's value is the double of its first unit; for an f32 next to bf16 the second unit is not used. In programs of
// one width (f32, i32 and masks all have the same) elements are adjacent. Where widths differ, each unit also records
// what was last written there, as real bytes would show it: an element read with another type, or partly overwritten,
// reads as NaN.
#pragma once

#include "runtime/abi/element_type.h"
#include "runtime/support/error.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace dtc::verify {

/// The contents of memory that nothing has written: NaN, so that reading it shows.
inline constexpr double unwritten = std::numeric_limits<double>::quiet_NaN();

/// A command or list that is wrong for any data: the interpreter refuses to run it.
class ProgramFault : public Error {
public:
  explicit ProgramFault(const std::string &message) : Error(ExitCode::Runtime, message) {}
};

/// What a unit of an arena with several widths holds: the first unit of an element of a type, or a further unit.
using UnitKind = uint8_t;
inline constexpr UnitKind furtherUnit = 0xff;

/// A part of an arena that one launch may touch: `size` elements of a type, each represented by one number.
template <class Number> struct BufferOf {
  Number *data = nullptr;
  int64_t size = 0;
  abi::DataType type = abi::F32;
  int64_t units = 1;         ///< per element
  UnitKind *kinds = nullptr; ///< of the units; null where all elements have one width

  /// Throws ProgramFault unless the elements [0, extent) lie within.
  void require(int64_t extent) const {
    if (extent > size)
      throw ProgramFault("reaches element " + std::to_string(extent - 1) + " of a buffer of " + std::to_string(size));
  }
  /// An element of a buffer whose elements are adjacent, as library kernels get them.
  Number &at(int64_t index) const {
    if (index < 0 || index >= size)
      throw ProgramFault("reaches element " + std::to_string(index) + " of a buffer of " + std::to_string(size));
    return data[index];
  }

  double read(int64_t index) const {
    if (!kinds)
      return data[index];
    const UnitKind *first = kinds + index * units;
    bool whole = *first == type;
    for (int64_t unit = 1; unit < units; ++unit)
      whole = whole && first[unit] == furtherUnit;
    return whole ? data[index * units] : unwritten;
  }
  void write(int64_t index, double value) const {
    data[index * units] = value;
    if (!kinds)
      return;
    std::fill_n(kinds + index * units, units, furtherUnit);
    kinds[index * units] = static_cast<UnitKind>(type);
  }
  std::vector<double> readAll() const {
    std::vector<double> values(size);
    for (int64_t i = 0; i < size; ++i)
      values[i] = read(i);
    return values;
  }
  void writeAll(const std::vector<double> &values) const {
    for (size_t i = 0; i < values.size(); ++i)
      write(static_cast<int64_t>(i), values[i]);
  }
  bool overlaps(const BufferOf &other) const {
    std::less<const double *> before;
    return before(data, other.data + other.size * other.units) && before(other.data, data + size * units);
  }
};

using Buffer = BufferOf<double>;

/// One rank's arena.
class Memory {
public:
  /// `unitBytes`: the width of the narrowest type; `mixed`: whether there are others.
  Memory(uint64_t bytes, uint64_t unitBytes, bool mixed)
      : unitBytes(unitBytes), values(bytes / unitBytes, unwritten), kinds(mixed ? values.size() : 0, furtherUnit) {}

  /// Throws ProgramFault when the elements are not all in the arena.
  Buffer buffer(uint64_t offset, uint64_t bytes, abi::DataType type) {
    const abi::ElementType *row = abi::findElementType(type);
    if (!row)
      throw ProgramFault("there is no " + abi::nameOf(type));
    uint64_t first = offset / unitBytes, count = bytes / unitBytes;
    if (offset % row->bytes != 0 || bytes % row->bytes != 0 || first > values.size() || count > values.size() - first)
      throw ProgramFault("bytes " + std::to_string(offset) + " to " + std::to_string(offset + bytes) +
                         " lie outside an " + "arena of " + std::to_string(unitBytes * values.size()) +
                         ", or between its elements of " + std::string(row->name));
    return {values.data() + first, static_cast<int64_t>(bytes / row->bytes), type,
            static_cast<int64_t>(row->bytes / unitBytes), kinds.empty() ? nullptr : kinds.data() + first};
  }

private:
  uint64_t unitBytes;
  std::vector<double> values;
  std::vector<UnitKind> kinds;
};

} // namespace dtc::verify
