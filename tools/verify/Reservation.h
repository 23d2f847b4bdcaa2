// Zeroed memory of any size, of which only what is touched takes any.
#pragma once

#include <cstddef>

namespace dtc::verify {

class Reservation {
public:
  /// Begins at a page. Throws Error (Runtime) when the system gives none.
  explicit Reservation(size_t bytes);
  ~Reservation();
  Reservation(const Reservation &) = delete;
  Reservation &operator=(const Reservation &) = delete;

  std::byte *data() const { return begin; }

private:
  size_t bytes;
  std::byte *begin;
};

} // namespace dtc::verify
