// Zeroed memory of any size, of which only the touched pages are allocated.
#pragma once

#include "runtime/support/not_copied.h"

#include <cstddef>

namespace dtc::verify {

class Reservation : NotCopied {
public:
  /// Begins at a page. Throws Error (Runtime) when the system provides none.
  explicit Reservation(size_t bytes);
  ~Reservation();

  std::byte *data() const { return begin; }

private:
  size_t bytes;
  std::byte *begin;
};

} // namespace dtc::verify
