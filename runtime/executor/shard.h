// Which part of a global tensor one rank stores.
#pragma once

#include "runtime/abi/manifest.pb.h"
#include "runtime/comm/mesh.h"

#include <cstdint>
#include <vector>

namespace dtc {

/// A box of a global tensor. Local storage is row-major over Tensor.local_shape; what of it lies past the global shape
/// is padding, which the box excludes.
struct Shard {
  std::vector<int64_t> begin; ///< per dimension, the first global index stored here
  std::vector<int64_t> size;  ///< per dimension, how many are stored here without padding; may be 0

  int64_t elements() const;
};

/// Throws Error (BadInput) when the tensor's shapes and sharding do not fit each other.
Shard shardOf(const abi::Tensor &tensor, const Mesh &mesh, int rank);

} // namespace dtc
