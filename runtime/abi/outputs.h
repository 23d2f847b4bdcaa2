// The names of the outputs that the host reads from a step or an evaluation. passes/differentiate assigns them.
#pragma once

#include <string_view>

namespace dtc::abi {

struct Output {
  std::string_view name;
  bool isOptional = false;
  bool isOfParameters = false; ///< one number per parameter, else a single one
};

/// All are f32. All are global, the same on every rank, except `localLossSum`.
namespace output {
inline constexpr Output lossSum{"loss_sum"}, tokenCount{"token_count"};
/// 1 where the step changed the state; 0 where it did not, because the loss or the norm is not finite or no token
/// counts.
inline constexpr Output updateApplied{"update_applied"};
/// Of steps that overlap: 1 where the update that came before the step's numbers were known was right; 0 where it must
/// be undone and done again (the timetable "redo").
inline constexpr Output updateHolds{"update_holds", true};
inline constexpr Output gradientNorm{"grad_norm", true};
inline constexpr Output gradientSquareSums{"grad_square_sums", true, true};
inline constexpr Output localLossSum{"local_loss_sum", true}; ///< this rank's own share
inline constexpr Output evaluationLossSum{"eval_loss_sum"}, evaluationTokenCount{"eval_token_count"};
/// Only in programs that generate: [rows, vocabulary].
inline constexpr Output logits{"next_logits"};

inline constexpr const Output *all[] = {&lossSum,      &tokenCount,        &updateApplied,
                                        &updateHolds,  &gradientNorm,      &gradientSquareSums,
                                        &localLossSum, &evaluationLossSum, &evaluationTokenCount};
} // namespace output

} // namespace dtc::abi
