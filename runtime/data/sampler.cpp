#include "runtime/data/sampler.h"

#include "runtime/abi/error.h"
#include "runtime/abi/random.h"

#include <algorithm>
#include <fmt/format.h>

namespace dtc {

Permutation::Permutation(uint64_t size, uint32_t key) : size(size), key(key) {
  while ((uint64_t(1) << 2 * halfBits) < size)
    ++halfBits;
}

uint64_t Permutation::scramble(uint64_t index) const {
  uint64_t mask = (uint64_t(1) << halfBits) - 1, left = index >> halfBits, right = index & mask;
  for (uint32_t round = 0; round < 4; ++round) {
    uint64_t mixed = left ^ (random::bits(random::stream(key, 0, round), right) & mask);
    left = right;
    right = mixed;
  }
  return left << halfBits | right;
}

uint64_t Permutation::operator()(uint64_t index) const {
  do
    index = scramble(index);
  while (index >= size);
  return index;
}

Sampler::Sampler(const TokenFile &file, const SamplerOptions &options) : content(file.tokens()), options(options) {
  int64_t length = options.sequenceLength;
  auto samplesIn = [&](size_t tokens) { return tokens == 0 ? 0 : static_cast<int64_t>(tokens - 1) / length; };
  validationBegin = content.size() - static_cast<size_t>(content.size() * options.validationFraction);
  training = samplesIn(validationBegin);
  validation = samplesIn(content.size() - validationBegin);
  auto tooShort = [&](const char *part, size_t tokens) {
    throw Error(ExitCode::BadInput,
                fmt::format("token file '{}' is too short: its {} part has {} of {} tokens, but one sample needs {} "
                            "(sequence_length {} and one more)",
                            file.path(), part, tokens, content.size(), length + 1, length));
  };
  if (training == 0)
    tooShort("training", validationBegin);
  if (options.validationFraction > 0 && validation == 0)
    tooShort("held-out", content.size() - validationBegin);
  file.checkVocabulary(options.vocabulary);
}

void Sampler::fillRow(size_t windowBegin, const BatchSlice &slice, int32_t *tokens, int32_t *targets) const {
  const uint16_t *window = content.data() + windowBegin + slice.firstColumn;
  for (int64_t column = 0; column < slice.columns; ++column) {
    tokens[column] = window[column];
    targets[column] = window[column + 1];
  }
}

void Sampler::fillTraining(int64_t position, const BatchSlice &slice, std::span<int32_t> tokens,
                           std::span<int32_t> targets) const {
  std::fill(tokens.begin(), tokens.end(), 0);
  std::fill(targets.begin(), targets.end(), Ignored);
  for (int64_t row = 0; row < slice.rows; ++row) {
    int64_t sample = position + slice.firstRow + row, epoch = sample / training;
    // The high bit of the step keeps these streams apart from those that models draw from.
    uint32_t key = random::stream(static_cast<uint32_t>(options.seed), static_cast<uint32_t>(epoch) | 1u << 31, 0);
    uint64_t window = Permutation(training, key)(sample % training);
    int64_t at = row * slice.localColumns;
    fillRow(window * options.sequenceLength, slice, &tokens[at], &targets[at]);
  }
}

void Sampler::fillValidation(int64_t position, const BatchSlice &slice, std::span<int32_t> tokens,
                             std::span<int32_t> targets) const {
  std::fill(tokens.begin(), tokens.end(), 0);
  std::fill(targets.begin(), targets.end(), Ignored);
  for (int64_t row = 0; row < slice.rows; ++row) {
    int64_t sample = position + slice.firstRow + row, at = row * slice.localColumns;
    if (sample < validation)
      fillRow(validationBegin + sample * options.sequenceLength, slice, &tokens[at], &targets[at]);
  }
}

} // namespace dtc
