// Meshes of tests.
#pragma once

#include "runtime/abi/manifest.pb.h"

#include <string>
#include <utility>
#include <vector>

namespace dtc::timing {

/// With the axes of these names and sizes.
inline abi::Mesh meshOf(const std::vector<std::pair<std::string, int64_t>> &axes) {
  abi::Mesh mesh;
  for (const auto &[name, size] : axes) {
    abi::Axis &axis = *mesh.add_axes();
    axis.set_name(name);
    axis.set_size(size);
  }
  return mesh;
}

} // namespace dtc::timing
