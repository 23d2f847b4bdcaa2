// The product of sizes: how many elements a tensor of these has.
#pragma once

#include <cstdint>

namespace dtc {

/// Of numbers that fit; 1 where there are none.
template <class Sizes> int64_t productOf(const Sizes &sizes) {
  int64_t product = 1;
  for (int64_t size : sizes)
    product *= size;
  return product;
}

} // namespace dtc
