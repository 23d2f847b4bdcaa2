// Strided copy of up to six dimensions. The source may end early along one of them: there index i is element begin + i
// of the source, which has `available` elements; zeros are written for the rest. grid: sizes[0] * sizes[1].
#pragma once

#include "runtime/abi/library/table.h"

namespace dtc::abi::library {

struct CopyScalars {
  static constexpr std::string_view kernel = "copy";
  static constexpr size_t rank = 6;

  int64_t sizes[rank]; ///< leading ones are 1
  int64_t inStrides[rank], outStrides[rank];
  int64_t inOffset;   ///< elements added to in: computed from a rank index for shard slices
  int64_t outOffset;  ///< elements added to out
  int64_t available;  ///< INT64_MAX: no end
  int64_t limitedDim; ///< the dimension along which the source may end: 0 to 5
  int64_t begin;
  int64_t bytes; ///< of an element

  [[gnu::always_inline]] constexpr int64_t grid() const { return sizes[0] * sizes[1]; }

  DTC_SCALARS(sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], sizes[5], inStrides[0], inStrides[1], inStrides[2],
              inStrides[3], inStrides[4], inStrides[5], outStrides[0], outStrides[1], outStrides[2], outStrides[3],
              outStrides[4], outStrides[5], inOffset, outOffset, available, limitedDim, begin, bytes)
};

#define DTC_SIZES "sizes[0] sizes[1] sizes[2] sizes[3] sizes[4] sizes[5]"
template <>
inline constexpr auto operandsOf<CopyScalars> = std::to_array<Operand>({
    {"in", DTC_SIZES, movedBy(&CopyScalars::bytes), Access::Read},
    {"out", DTC_SIZES, movedBy(&CopyScalars::bytes), Access::Written},
});
#undef DTC_SIZES

} // namespace dtc::abi::library
