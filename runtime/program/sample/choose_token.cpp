#include "runtime/program/sample/choose_token.h"

#include "runtime/abi/random.h"
#include "runtime/support/error.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace dtc {
namespace {

/// A logit less the largest one, over the temperature.
struct Score {
  int64_t id;
  double value;
};

/// Descending. A heap or a sort of equal ones is transformers' ascending stable one from its end.
bool isBefore(const Score &a, const Score &b) { return a.value != b.value ? a.value > b.value : a.id > b.id; }

void checkChoice(const Choice &choice) {
  auto refuse = [](const std::string &problem) { throw Error(ExitCode::BadInput, problem); };
  if (!(choice.temperature >= 0) || std::isinf(choice.temperature))
    refuse(fmt::format("the temperature is {}; it is 0, for the most probable token, or a positive number",
                       choice.temperature));
  if (choice.topK < 0)
    refuse(fmt::format("top-k is {}; it is a number of tokens, or 0 for all", choice.topK));
  if (!(choice.topP >= 0 && choice.topP <= 1))
    refuse(fmt::format("top-p is {}; it is a probability from 0 to 1", choice.topP));
}

/// The id of the largest logit, the first of several.
int64_t findLargest(std::span<const float> logits) {
  int64_t largest = -1;
  float most = -std::numeric_limits<float>::infinity();
  for (size_t id = 0; id < logits.size(); ++id) {
    if (std::isnan(logits[id]) || logits[id] == std::numeric_limits<float>::infinity())
      throw Error(ExitCode::NonFinite, fmt::format("the logit of token {} is {}, so no token can be chosen; are the "
                                                   "weights finite?",
                                                   id, std::isnan(logits[id]) ? "NaN" : "infinite"));
    if (logits[id] > most)
      most = logits[id], largest = static_cast<int64_t>(id);
  }
  if (largest < 0)
    throw Error(ExitCode::NonFinite,
                fmt::format("none of {} logits is a finite number, so no token can be chosen", logits.size()));
  return largest;
}

/// Keeps the K largest, and those equal to the last of them.
void keepLargest(std::vector<Score> &scores, int64_t count) {
  if (count == 0 || count >= static_cast<int64_t>(scores.size()))
    return;
  std::nth_element(scores.begin(), scores.begin() + (count - 1), scores.end(), isBefore);
  double least = scores[count - 1].value;
  std::erase_if(scores, [&](const Score &score) { return score.value < least; });
}

/// Keeps the most probable ones until they have `share` of the probability.
void keepProbable(std::vector<Score> &scores, double share) {
  if (share >= 1)
    return;
  double total = 0;
  for (const Score &score : scores)
    total += std::exp(score.value);
  // Usually few are kept, so they are taken from a heap one by one instead of sorting.
  auto isAfter = [](const Score &a, const Score &b) { return isBefore(b, a); };
  std::make_heap(scores.begin(), scores.end(), isAfter);
  auto end = scores.end();
  double before = 0;
  do {
    std::pop_heap(scores.begin(), end, isAfter);
    before += std::exp((--end)->value);
  } while (end != scores.begin() && before < share * total);
  scores.erase(scores.begin(), end);
}

} // namespace

std::vector<Candidate> candidates(std::span<const float> logits, const Choice &choice) {
  checkChoice(choice);
  int64_t largest = findLargest(logits);
  if (choice.temperature == 0)
    return {{largest, 1}};
  std::vector<Score> scores;
  scores.reserve(logits.size());
  for (size_t id = 0; id < logits.size(); ++id)
    scores.push_back({static_cast<int64_t>(id), (double(logits[id]) - double(logits[largest])) / choice.temperature});
  keepLargest(scores, choice.topK);
  keepProbable(scores, choice.topP);
  std::sort(scores.begin(), scores.end(), [](const Score &a, const Score &b) { return a.id < b.id; });
  std::vector<Candidate> remaining;
  double total = 0;
  for (const Score &score : scores)
    if (double weight = std::exp(score.value); weight > 0) {
      remaining.push_back({score.id, weight});
      total += weight;
    }
  for (Candidate &candidate : remaining)
    candidate.probability /= total;
  return remaining;
}

int64_t chooseToken(std::span<const float> logits, const Choice &choice, TokenPlace place) {
  std::vector<Candidate> remaining = candidates(logits, choice);
  uint32_t stream =
      random::stream(static_cast<uint32_t>(choice.seed), static_cast<uint32_t>(choice.seed >> 32), place.row);
  // Two draws of 24 bits: one draw is too coarse for the rare tokens of a large vocabulary.
  double drawn =
      random::uniform(stream, 2 * place.position) + random::uniform(stream, 2 * place.position + 1) * 0x1p-24;
  double sum = 0;
  for (const Candidate &candidate : remaining)
    if ((sum += candidate.probability) > drawn)
      return candidate.id;
  return remaining.back().id; // the probabilities sum to a little less than 1
}

} // namespace dtc
