// Shapes of a program that has not been validated yet.
#pragma once

#include "runtime/executor/refuse.h"
#include "runtime/executor/validate.h"

#include <cstdint>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <string>

namespace dtc {

using Shape = google::protobuf::RepeatedField<int64_t>;

inline std::string text(const Shape &shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

/// The product of a shape's sizes, all of them positive and together within the limits.
inline int64_t checkedElements(const Shape &shape, const std::string &what) {
  if (shape.size() > ManifestLimits::Dimensions)
    refuseProgram(
        fmt::format("{} has {} dimensions; at most {} are accepted", what, shape.size(), ManifestLimits::Dimensions));
  int64_t elements = 1;
  for (int64_t size : shape) {
    if (size < 1)
      refuseProgram(fmt::format("{} has the shape {}; sizes are positive", what, text(shape)));
    if (__builtin_mul_overflow(elements, size, &elements) || elements > ManifestLimits::TensorElements)
      refuseProgram(fmt::format("{} of shape {} has more than 2^50 elements", what, text(shape)));
  }
  return elements;
}

} // namespace dtc
