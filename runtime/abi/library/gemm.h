// C[b] = op(A[b]) op(B[b]) + accumulate * C[b]. Row-major; op(A) is m x k, op(B) is k x n.
//
// grid: batch * (splitColumns ? n : m). Every thread packs the whole operand that is not divided, so divide the larger
// of m and n. Parts of a multiple of 8 rows or 48 columns waste nothing; where the processor multiplies tiles of bf16,
// parts of a multiple of 32 of either. In a product of 8 rows or fewer, B is read once and not packed. Each element is
// one chain of fused multiply-adds in the order of k; where the processor multiplies pairs of bf16, the chain adds sums
// of two products.
#pragma once

#include "runtime/abi/epilogue.h"
#include "runtime/abi/library/table.h"

namespace dtc::abi::library {

struct GemmScalars {
  static constexpr std::string_view kernel = "gemm";

  int64_t batch, m, n, k;
  int64_t transposeA, transposeB;    ///< 0 or 1: the matrix is stored transposed
  int64_t lda, ldb, ldc;             ///< from one row in memory to the next
  int64_t strideA, strideB, strideC; ///< between batches
  int64_t accumulate;                ///< 0 or 1
  int64_t splitColumns;              ///< 1 when threads divide the columns of C, 0 when they divide rows
  int64_t operands;                  ///< element of A and B
  int64_t result;                    ///< element of C: that of A and B, or f32

  [[gnu::always_inline]] constexpr int64_t grid() const { return batch * (splitColumns ? n : m); }

  DTC_SCALARS(batch, m, n, k, transposeA, transposeB, lda, ldb, ldc, strideA, strideB, strideC, accumulate,
              splitColumns, operands, result)
};

/// A product with an epilogue, with a batch of 1 and no accumulation. Only NVIDIA's library has it.
struct ProductScalars : GemmScalars {
  static constexpr std::string_view kernel = "product";

  int64_t epilogue; ///< abi::Epilogue

  DTC_MORE_SCALARS(GemmScalars, epilogue)
};

template <>
inline constexpr auto operandsOf<GemmScalars> = std::to_array<Operand>({
    {"A", "batch m k", toldBy(&GemmScalars::operands), Access::Read},
    {"B", "batch k n", toldBy(&GemmScalars::operands), Access::Read},
    {"C", "batch m n", toldBy(&GemmScalars::result), Access::Written, nullptr, isSet<&GemmScalars::accumulate>},
});

namespace detail {

/// Whether the epilogue has a property.
template <bool EpilogueForm::*property> bool hasEpilogue(const int64_t *scalars) {
  const EpilogueForm *form = findEpilogue(scalars[indexOf(&ProductScalars::epilogue)]);
  return form && form->*property;
}

} // namespace detail

template <>
inline constexpr auto operandsOf<ProductScalars> = std::to_array<Operand>({
    {"A", "m k", toldBy(&GemmScalars::operands), Access::Read},
    {"B", "k n", toldBy(&GemmScalars::operands), Access::Read},
    // C may lie over the accumulator.
    {"accumulator", "m n", toldBy(&GemmScalars::result), Access::Read, detail::hasEpilogue<&EpilogueForm::accumulates>},
    {"bias", "n", toldBy(&GemmScalars::result), Access::Read, detail::hasEpilogue<&EpilogueForm::hasBias>},
    {"x", "m n", toldBy(&GemmScalars::result), Access::Read, detail::hasEpilogue<&EpilogueForm::readsOperand>},
    {"C", "m n", toldBy(&GemmScalars::result), Access::Written},
    {"sum", "m n", toldBy(&GemmScalars::result), Access::Written, detail::hasEpilogue<&EpilogueForm::storesSum>},
});

} // namespace dtc::abi::library
