// Strided copy of up to six dimensions. The source may end early along one of them: there index i is element begin + i
// of the source, which has `available` of them; zeros are written for the others. grid: sizes[0] * sizes[1].
#pragma once

#include "runtime/abi/library/table.h"

namespace dtc::abi::library {

struct CopyScalars {
  static constexpr size_t rank = 6;

  int64_t sizes[rank]; ///< leading ones are 1
  int64_t inStrides[rank], outStrides[rank];
  int64_t inOffset;   ///< elements added to in: a rank index for shard slices
  int64_t outOffset;  ///< elements added to out
  int64_t available;  ///< INT64_MAX: no end
  int64_t limitedDim; ///< the dimension along which the source may end: 0 to 5
  int64_t begin;
  int64_t bytes; ///< of an element

  [[gnu::always_inline]] constexpr int64_t grid() const { return sizes[0] * sizes[1]; }
};

namespace detail {

inline constexpr std::array copyFields = {
    DTC_SCALAR(CopyScalars, sizes[0]),      DTC_SCALAR(CopyScalars, sizes[1]),
    DTC_SCALAR(CopyScalars, sizes[2]),      DTC_SCALAR(CopyScalars, sizes[3]),
    DTC_SCALAR(CopyScalars, sizes[4]),      DTC_SCALAR(CopyScalars, sizes[5]),
    DTC_SCALAR(CopyScalars, inStrides[0]),  DTC_SCALAR(CopyScalars, inStrides[1]),
    DTC_SCALAR(CopyScalars, inStrides[2]),  DTC_SCALAR(CopyScalars, inStrides[3]),
    DTC_SCALAR(CopyScalars, inStrides[4]),  DTC_SCALAR(CopyScalars, inStrides[5]),
    DTC_SCALAR(CopyScalars, outStrides[0]), DTC_SCALAR(CopyScalars, outStrides[1]),
    DTC_SCALAR(CopyScalars, outStrides[2]), DTC_SCALAR(CopyScalars, outStrides[3]),
    DTC_SCALAR(CopyScalars, outStrides[4]), DTC_SCALAR(CopyScalars, outStrides[5]),
    DTC_SCALAR(CopyScalars, inOffset),      DTC_SCALAR(CopyScalars, outOffset),
    DTC_SCALAR(CopyScalars, available),     DTC_SCALAR(CopyScalars, limitedDim),
    DTC_SCALAR(CopyScalars, begin),         DTC_SCALAR(CopyScalars, bytes),
};
static_assert(describes<CopyScalars>(copyFields));

#define DTC_SIZES "sizes[0] sizes[1] sizes[2] sizes[3] sizes[4] sizes[5]"
inline constexpr Operand copyOperands[] = {
    {"in", DTC_SIZES, movedBy(&CopyScalars::bytes), Access::Read},
    {"out", DTC_SIZES, movedBy(&CopyScalars::bytes), Access::Written},
};
#undef DTC_SIZES

} // namespace detail

template <> inline constexpr KernelTable tableOf<CopyScalars> = {"copy", detail::copyFields, detail::copyOperands};

} // namespace dtc::abi::library
