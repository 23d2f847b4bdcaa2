// A buffer for code under test: memory in which everything is poison except the elements that were written on purpose.
// It reports afterwards whether anything else was changed. Poison is NaN as any floating-point type and -1 as an
// integer.
//
// Memory is reserved for the whole buffer; only the used part, and a margin around it, is allocated.
#pragma once

#include "runtime/abi/element_type.h"
#include "tools/verify/Reservation.h"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace dtc::verify {

class PoisonedMemory {
public:
  /// Begins `shift` elements after a multiple of 4096 bytes. Throws Error (Runtime) when the system provides no memory.
  PoisonedMemory(int64_t elements, const abi::ElementType &type, int64_t shift = 0);

  std::byte *data() const { return begin; }

  /// Poisons these elements of a type, in ascending order, and the bytes around them.
  void poison(const std::vector<int64_t> &elements, const abi::ElementType &type);
  /// Sets an element's value, which its type can hold.
  void write(int64_t element, const abi::ElementType &type, double value);
  double read(int64_t element, const abi::ElementType &type) const;

  /// Remembers the current contents of all poisoned stretches.
  void remember();
  /// The first byte that changed, counted from the start of the buffer, ignoring the elements `except` of a type.
  std::optional<int64_t> findChange(const std::vector<int64_t> &except, const abi::ElementType &type);

private:
  struct Stretch {
    std::byte *begin, *end;
    std::vector<std::byte> before = {};
  };

  Reservation memory;
  std::byte *begin;
  std::vector<Stretch> stretches;
};

} // namespace dtc::verify
