// Which token follows, chosen from a model's logits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace dtc {

/// How tokens are chosen: logits are divided by the temperature, then all but the `topK` largest are left out, then all
/// but the most probable ones that together have `topP` of the probability; one of the others is drawn. This is what
/// transformers' TemperatureLogitsWarper, TopKLogitsWarper and TopPLogitsWarper do, in this order.
struct Choice {
  double temperature = 0; ///< 0: the largest logit, of equal ones that of the lowest id, as torch.argmax
  int64_t topK = 0;       ///< 0: all. Logits equal to the last of the K stay, too
  double topP = 1;        ///< from 0 to 1: all. At least one token stays; of equally probable ones those of higher ids
  uint64_t seed = 0;
};

/// A token's position determines its random number. So a choice is the same on every rank, in every layout and whatever
/// other rows there are.
struct TokenPlace {
  uint32_t row = 0; ///< of the request
  uint64_t position = 0;
};

struct Candidate {
  int64_t id;
  double probability; ///< above 0; those of all candidates sum to 1
};

/// What a token is drawn from, in ascending order of ids; with temperature 0 the one chosen. `logits`: one for each
/// token of the vocabulary; minus infinity for those that must not follow. Throws Error (NonFinite) where a logit is
/// NaN or infinity or none is a number, and Error (BadInput) for a choice out of its range.
std::vector<Candidate> candidates(std::span<const float> logits, const Choice &choice);

/// The id of the token that follows. Throws like `candidates`.
int64_t chooseToken(std::span<const float> logits, const Choice &choice, TokenPlace place);

} // namespace dtc
