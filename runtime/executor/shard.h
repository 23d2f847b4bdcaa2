// Which part of a global tensor one rank stores.
#pragma once

#include "runtime/abi/manifest.pb.h"
#include "runtime/abi/mesh.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace dtc {

/// A box of a global tensor. Local storage is row-major over Tensor.local_shape; the part past the global shape is
/// padding, which the box excludes.
struct Shard {
  std::vector<int64_t> begin; ///< per dimension, the first global index stored here
  std::vector<int64_t> size;  ///< per dimension, how many indices are stored here, without padding; may be 0

  int64_t elements() const;
};

/// Throws Error (BadInput) when the tensor's shapes and sharding do not fit each other.
Shard shardOf(const abi::Tensor &tensor, const Mesh &mesh, int rank);

/// Which ranks store copies of the same piece of a tensor: ranks whose role has it and that have equal digits on all
/// axes that split it.
class Pieces {
public:
  static constexpr int64_t None = -1;

  /// Both arguments outlive it.
  Pieces(const abi::Manifest &manifest, const Mesh &mesh) : manifest(manifest), mesh(mesh) {}

  /// Per rank, the number of the piece of a parameter or slot that it stores, or None. All tensors that the same axes
  /// split among the same roles share one vector, whose address is stable.
  const std::vector<int64_t> &of(const abi::Tensor &tensor);

private:
  const abi::Manifest &manifest;
  const Mesh &mesh;
  std::map<std::pair<std::string, std::vector<bool>>, std::vector<int64_t>> known; // by axes and roles
};

} // namespace dtc
