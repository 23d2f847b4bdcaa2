// What a matrix product does to each element before storing it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace dtc::abi {

/// c is an element of the product, kept in f32 until it is stored.
enum class Epilogue : int64_t {
  Accumulate = 1,   ///< c + the accumulator's element
  Bias = 2,         ///< c + bias[column]
  GeluBias = 3,     ///< gelu(c + bias[column]), the tanh form
  GeluAuxBias = 4,  ///< the same; c + bias[column] is stored too
  GeluGradient = 5, ///< c gelu'(x), x from another matrix
};

/// Names as in kernel symbols: "dtc_cuda_product$gelu_bias".
struct EpilogueForm {
  Epilogue epilogue;
  std::string_view name;
  bool accumulates, hasBias, hasGelu, readsOperand, storesSum;

  /// Buffers: A, B, then the accumulator or x or the bias; then the result and the second result.
  size_t inputs() const { return 2 + accumulates + hasBias + readsOperand; }
  size_t outputs() const { return 1 + storesSum; }
};

inline constexpr EpilogueForm EpilogueForms[] = {
    {Epilogue::Accumulate, "accumulate", true, false, false, false, false},
    {Epilogue::Bias, "bias", false, true, false, false, false},
    {Epilogue::GeluBias, "gelu_bias", false, true, true, false, false},
    {Epilogue::GeluAuxBias, "gelu_aux_bias", false, true, true, false, true},
    {Epilogue::GeluGradient, "gelu_gradient", false, false, false, true, false},
};

constexpr const EpilogueForm *findEpilogue(int64_t number) {
  for (const EpilogueForm &form : EpilogueForms)
    if (static_cast<int64_t>(form.epilogue) == number)
      return &form;
  return nullptr;
}

} // namespace dtc::abi
