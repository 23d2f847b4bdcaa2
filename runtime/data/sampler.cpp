#include "runtime/data/sampler.h"

#include "runtime/abi/random.h"
#include "runtime/support/error.h"

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
    : options(options) {
  divide({{&data, 1}}, validationData);
}

Sampler::Sampler(const std::vector<Source> &sources, const SamplerOptions &options, const TokenData *validationData)
    : options(options) {
  std::vector<Weighted> weighted;
  for (const Source &source : sources)
    weighted.push_back({&source.data, source.weight});
  divide(weighted, validationData);
}

void Sampler::divide(const std::vector<Weighted> &sources, const TokenData *validationData) {
  bool holdsOut = !validationData && options.validationFraction > 0;
  for (const Weighted &source : sources) {
    size_t size = source.data->size(), end = size;
    if (holdsOut)
      end -= static_cast<size_t>(static_cast<double>(size) * options.validationFraction);
    training.parts.push_back(partOf(*source.data, "training", 0, end, true));
    if (!validationData)
      heldOut.parts.push_back(partOf(*source.data, "held-out", end, size, holdsOut));
    check(*source.data);
  }
  if (validationData) {
    heldOut.parts.push_back(partOf(*validationData, "held-out", 0, validationData->size(), true));
    check(*validationData);
  }
  std::vector<int64_t> counts;
  for (const Part &part : heldOut.parts)
    counts.push_back(part.windows);
  heldOut.order = Interleaving(counts);
  apportionTraining(sources);
}

void Sampler::apportionTraining(const std::vector<Weighted> &sources) {
  std::vector<double> weights;
  int64_t total = 0;
  for (size_t source = 0; source < sources.size(); ++source) {
    weights.push_back(sources[source].weight);
    total += training.parts[source].windows;
  }
  std::vector<int64_t> counts = apportion(total, weights);
  if (auto none = std::ranges::find(counts, 0); none != counts.end()) {
    const Weighted &source = sources[static_cast<size_t>(none - counts.begin())];
    throw Error(ExitCode::BadInput,
                fmt::format("{}: its weight {} gives it none of an epoch's {} samples; give it more, or "
                            "leave it out",
                            source.data->describe(), source.weight, total));
  }
  training.order = Interleaving(counts);
}

Sampler::Part Sampler::partOf(const TokenData &data, const char *name, size_t begin, size_t end,
                              bool mustHaveSample) const {
  int64_t length = options.sequenceLength;
  size_t tokens = end - begin;
  int64_t windows = tokens == 0 ? 0 : static_cast<int64_t>(tokens - 1) / length;
  if (mustHaveSample && windows == 0)
    throw Error(ExitCode::BadInput,
                fmt::format("{} is too short: its {} part has {} of {} tokens, but one sample needs "
                            "{} (sequence_length {} and one more)",
                            data.describe(), name, tokens, data.size(), length + 1, length));
  return {&data, begin, windows};
}

void Sampler::check(const TokenData &data) const {
  data.checkVocabulary(options.vocabulary);
  if (options.separateDocuments && !data.hasDocuments())
    throw Error(
        ExitCode::BadInput,
        fmt::format("{}: the file does not say where documents begin, which separate_documents needs; 'dtc data "
                    "pack --tokenizer' writes files that do, or compile with separate_documents=false",
                    data.describe()));
  if (data.hasMask() && data.counted() == 0)
    throw Error(ExitCode::BadInput, fmt::format("{}: the loss mask leaves no token that counts", data.describe()));
}

void Sampler::fillRow(SamplePart part, const Part &from, int64_t window, const BatchSlice &slice, int32_t *row) const {
  size_t begin = from.begin + static_cast<size_t>(window * options.sequenceLength);
  fillWindow(part, {from.data, begin, options.sequenceLength}, {options.vocabulary, options.separateDocuments}, slice,
             row);
}

void Sampler::fillTraining(SamplePart part, int64_t position, const BatchSlice &slice,
                           std::span<int32_t> values) const {
  std::fill(values.begin(), values.end(), paddingOf(part));
  for (int64_t row = 0; row < slice.rows; ++row) {
    int64_t sample = position + slice.firstRow + row, epoch = sample / training.order.size();
    auto [source, index] = training.order.at(sample % training.order.size());
    const Part &from = training.parts[source];
    // A source's samples over all epochs, one after the other, form passes over its windows.
    int64_t number = epoch * training.order.count(source) + index, pass = number / from.windows;
    // The high bit of the step separates these streams from those that models draw from.
    uint32_t key = random::stream(static_cast<uint32_t>(options.seed), static_cast<uint32_t>(pass) | 1u << 31,
                                  static_cast<uint32_t>(source));
    auto window = static_cast<int64_t>(Permutation(from.windows, key)(number % from.windows));
    fillRow(part, from, window, slice, &values[row * slice.localColumns]);
  }
}

void Sampler::fillValidation(SamplePart part, int64_t position, const BatchSlice &slice,
                             std::span<int32_t> values) const {
  std::fill(values.begin(), values.end(), paddingOf(part));
  for (int64_t row = 0; row < slice.rows; ++row) {
    int64_t sample = position + slice.firstRow + row;
    if (sample >= heldOut.order.size())
      continue;
    auto [source, index] = heldOut.order.at(sample);
    fillRow(part, heldOut.parts[source], index, slice, &values[row * slice.localColumns]);
  }
}

} // namespace dtc
