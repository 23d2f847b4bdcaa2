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

Sampler::Sampler(const TokenData &data, const SamplerOptions &options, const TokenData *validationData)
    : data(data), heldOut(validationData ? *validationData : data), options(options) {
  int64_t length = options.sequenceLength;
  auto samplesIn = [&](size_t tokens) { return tokens == 0 ? 0 : static_cast<int64_t>(tokens - 1) / length; };
  size_t trainingEnd = data.size();
  if (!validationData)
    validationBegin = trainingEnd -= static_cast<size_t>(static_cast<double>(data.size()) * options.validationFraction);
  training = samplesIn(trainingEnd);
  validation = samplesIn(heldOut.size() - validationBegin);
  auto tooShort = [&](const TokenData &from, const char *part, size_t tokens) {
    throw Error(ExitCode::BadInput,
                fmt::format("{} is too short: its {} part has {} of {} tokens, but one sample needs "
                            "{} (sequence_length {} and one more)",
                            from.describe(), part, tokens, from.size(), length + 1, length));
  };
  if (training == 0)
    tooShort(data, "training", trainingEnd);
  if ((validationData || options.validationFraction > 0) && validation == 0)
    tooShort(heldOut, "held-out", heldOut.size() - validationBegin);
  check(data);
  if (validationData)
    check(heldOut);
}

void Sampler::check(const TokenData &data) const {
  data.checkVocabulary(options.vocabulary);
  if (data.hasMask() && data.counted() == 0)
    throw Error(ExitCode::BadInput, fmt::format("{}: the loss mask leaves no token that counts", data.describe()));
}

/// Token 0, or a target that does not count.
static int32_t paddingOf(SamplePart part) { return part == SamplePart::Targets ? Sampler::Ignored : 0; }

void Sampler::fillRow(const TokenData &from, SamplePart part, size_t windowBegin, const BatchSlice &slice,
                      int32_t *row) const {
  size_t first = windowBegin + static_cast<size_t>(slice.firstColumn);
  std::span<int32_t> out(row, static_cast<size_t>(slice.columns));
  if (part == SamplePart::Targets)
    from.copyTargets(first + 1, out, Ignored, options.vocabulary);
  else
    from.copyTokens(first, out, options.vocabulary);
}

void Sampler::fillTraining(SamplePart part, int64_t position, const BatchSlice &slice,
                           std::span<int32_t> values) const {
  std::fill(values.begin(), values.end(), paddingOf(part));
  for (int64_t row = 0; row < slice.rows; ++row) {
    int64_t sample = position + slice.firstRow + row, epoch = sample / training;
    // The high bit of the step keeps these streams apart from those that models draw from.
    uint32_t key = random::stream(static_cast<uint32_t>(options.seed), static_cast<uint32_t>(epoch) | 1u << 31, 0);
    uint64_t window = Permutation(training, key)(sample % training);
    fillRow(data, part, window * options.sequenceLength, slice, &values[row * slice.localColumns]);
  }
}

void Sampler::fillValidation(SamplePart part, int64_t position, const BatchSlice &slice,
                             std::span<int32_t> values) const {
  std::fill(values.begin(), values.end(), paddingOf(part));
  for (int64_t row = 0; row < slice.rows; ++row) {
    int64_t sample = position + slice.firstRow + row;
    if (sample < validation)
      fillRow(heldOut, part, validationBegin + sample * options.sequenceLength, slice,
              &values[row * slice.localColumns]);
  }
}

} // namespace dtc
