// What the host reads of a step and of an evaluation: the names of the outputs, which passes/differentiate gives them.
#pragma once

#include <string_view>

namespace dtc::abi {

struct Output {
  std::string_view name;
  bool isOptional = false;
  bool isOfParameters = false; ///< one number for each parameter, else one alone
};

/// f32 all. Global, the same on every rank, but for `localLossSum`.
namespace output {
inline constexpr Output lossSum{"loss_sum"}, tokenCount{"token_count"};
/// 1 where the step changed the state; 0 where it left it, because the loss or the norm is not finite or no token counts.
inline constexpr Output updateApplied{"update_applied"};
inline constexpr Output gradientNorm{"grad_norm", true};
inline constexpr Output gradientSquareSums{"grad_square_sums", true, true};
inline constexpr Output localLossSum{"local_loss_sum", true}; ///< this rank's own share
inline constexpr Output evaluationLossSum{"eval_loss_sum"}, evaluationTokenCount{"eval_token_count"};
/// Of programs that generate, and of no others: [rows, vocabulary].
inline constexpr Output logits{"next_logits"};

inline constexpr const Output *all[] = {&lossSum,
                                        &tokenCount,
                                        &updateApplied,
                                        &gradientNorm,
                                        &gradientSquareSums,
                                        &localLossSum,
                                        &evaluationLossSum,
                                        &evaluationTokenCount};
} // namespace output

} // namespace dtc::abi
