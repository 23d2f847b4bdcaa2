#include "tools/dtc/advice/DataAxes.h"

#include <algorithm>

namespace dtc {

static int64_t ranksOver(const std::vector<abi::AxisRef> &axes) {
  int64_t ranks = 1;
  for (const abi::AxisRef &axis : axes)
    ranks *= axis.size();
  return ranks;
}

int64_t DataAxes::rowRanks() const { return ranksOver(rows); }

int64_t DataAxes::ranks() const { return ranksOver(rows) * ranksOver(columns); }

bool DataAxes::split(const abi::Sharding &sharding) const {
  auto isOurs = [](const std::vector<abi::AxisRef> &ours, const abi::AxisRef &axis) {
    return std::ranges::any_of(ours, [&](const abi::AxisRef &own) { return own.axis() == axis.axis(); });
  };
  for (const abi::DimSharding &dim : sharding.dims())
    for (const abi::AxisRef &axis : dim.axes())
      if (axis.size() > 1 && (isOurs(rows, axis) || isOurs(columns, axis)))
        return true;
  return false;
}

static std::vector<abi::AxisRef> axesOfDim(const abi::Sharding &sharding, int dim) {
  if (dim >= sharding.dims_size())
    return {};
  const auto &axes = sharding.dims(dim).axes();
  return {axes.begin(), axes.end()};
}

DataAxes dataAxesOf(const abi::Manifest &program) {
  for (const abi::Role &role : program.roles())
    for (const abi::Tensor &tensor : role.tensors())
      if (tensor.kind() == abi::Tensor::INPUT &&
          (tensor.source().kind() == abi::Source::TOKENS || tensor.source().kind() == abi::Source::NEXT_TOKENS))
        return {axesOfDim(tensor.sharding(), 0), axesOfDim(tensor.sharding(), 1)};
  return {};
}

} // namespace dtc
