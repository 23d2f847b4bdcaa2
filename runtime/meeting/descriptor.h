// Ownership of open files.
#pragma once

#include <memory>
#include <unistd.h>
#include <utility>

namespace dtc {

/// An open file, closed with its owner.
class Descriptor {
public:
  explicit Descriptor(int number = -1) : number(number) {}
  Descriptor(Descriptor &&other) noexcept : number(std::exchange(other.number, -1)) {}
  Descriptor &operator=(Descriptor &&other) noexcept {
    std::swap(number, other.number);
    return *this;
  }
  ~Descriptor() {
    if (number >= 0)
      close(number);
  }

  int get() const { return number; }
  explicit operator bool() const { return number >= 0; }

private:
  int number;
};

/// A descriptor with several users; null: none.
using SharedDescriptor = std::shared_ptr<const Descriptor>;

} // namespace dtc
