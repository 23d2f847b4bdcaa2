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

/// Token 0, or a target that does not count.
static int32_t paddingOf(SamplePart part) { return part == SamplePart::Targets ? Sampler::Ignored : 0; }

void Sampler::fillRow(SamplePart part, size_t windowBegin, const BatchSlice &slice, int32_t *row) const {
  size_t shift = part == SamplePart::Targets ? 1 : 0;
  const uint16_t *window = content.data() + windowBegin + slice.firstColumn + shift;
  std::copy(window, window + slice.columns, row);
}

void Sampler::fillTraining(SamplePart part, int64_t position, const BatchSlice &slice,
                           std::span<int32_t> values) const {
  std::fill(values.begin(), values.end(), paddingOf(part));
  for (int64_t row = 0; row < slice.rows; ++row) {
    int64_t sample = position + slice.firstRow + row, epoch = sample / training;
    // The high bit of the step keeps these streams apart from those that models draw from.
    uint32_t key = random::stream(static_cast<uint32_t>(options.seed), static_cast<uint32_t>(epoch) | 1u << 31, 0);
    uint64_t window = Permutation(training, key)(sample % training);
    fillRow(part, window * options.sequenceLength, slice, &values[row * slice.localColumns]);
  }
}

void Sampler::fillValidation(SamplePart part, int64_t position, const BatchSlice &slice,
                             std::span<int32_t> values) const {
  std::fill(values.begin(), values.end(), paddingOf(part));
  for (int64_t row = 0; row < slice.rows; ++row) {
    int64_t sample = position + slice.firstRow + row;
    if (sample < validation)
      fillRow(part, validationBegin + sample * options.sequenceLength, slice, &values[row * slice.localColumns]);
  }
}

} // namespace dtc
