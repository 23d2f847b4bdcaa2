#include "runtime/executor/shard.h"

#include "runtime/abi/roles.h"
#include "runtime/support/error.h"
#include "runtime/support/product.h"

#include <algorithm>
#include <fmt/format.h>

namespace dtc {

int64_t Shard::elements() const { return productOf(size); }

Shard shardOf(const abi::Tensor &tensor, const Mesh &mesh, int rank) {
  int rankCount = tensor.global_shape_size();
  // A tensor that no axis splits may omit the lists of its dimensions.
  if (tensor.local_shape_size() != rankCount || tensor.sharding().dims_size() > rankCount)
    throw Error(ExitCode::BadInput, fmt::format("damaged program: tensor '{}' has {} global and {} local dimensions",
                                                tensor.name(), rankCount, tensor.local_shape_size()));
  Shard shard;
  for (int dim = 0; dim < rankCount; ++dim) {
    int64_t global = tensor.global_shape(dim), local = tensor.local_shape(dim), index = 0;
    if (dim < tensor.sharding().dims_size())
      index = mesh.indexOf(rank, tensor.sharding().dims(dim).axes());
    shard.begin.push_back(std::min(index * local, global));
    shard.size.push_back(std::min(local, global - shard.begin.back()));
  }
  return shard;
}

/// Whether two tensors, of two roles for example, are the same.
static bool isSame(const abi::Tensor &a, const abi::Tensor &b) {
  return a.kind() == b.kind() && a.parameter() == b.parameter() && a.slot() == b.slot();
}

const std::vector<int64_t> &Pieces::of(const abi::Tensor &tensor) {
  abi::DimSharding all;
  for (const abi::DimSharding &dim : tensor.sharding().dims())
    all.MergeFrom(dim);
  std::vector<bool> has; // by role
  for (const abi::Role &role : manifest.roles())
    has.push_back(manifest.roles_size() == 1 ||
                  std::ranges::any_of(role.tensors(), [&](const abi::Tensor &other) { return isSame(other, tensor); }));
  std::vector<int64_t> &pieces = known[{all.SerializeAsString(), has}];
  if (pieces.empty())
    for (int rank = 0; rank < mesh.ranks(); ++rank)
      pieces.push_back(has[static_cast<size_t>(abi::roleIndexOf(manifest, rank))] ? mesh.indexOf(rank, all.axes())
                                                                                  : None);
  return pieces;
}

} // namespace dtc
