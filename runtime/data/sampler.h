// Which tokens go where: the same sequence of samples whatever the mesh, the accumulation and the batch size.
//
// A sample is a window of sequence_length + 1 tokens: inputs and, shifted by one, targets. Neighbouring windows share
// one token, so that every token but the first is a target once. Several token files form one sequence, laid end to
// end. The windows are cut from its front; its end is held out for evaluation, unless separate evaluation data is
// given. A target that the loss mask excludes is ignored.
//
// Training visits the windows in a seeded order that differs in each epoch. The order is a keyed bijection computed on
// the fly, so the whole state of the data is one number: how many samples have been used. Row r of the global batch
// that begins at sample p is sample p + r; micro-batch k of m has the rows [k G/m, (k+1) G/m); a rank reads the rows
// and columns that the sharding of each of the program's inputs gives it.
//
// With several sources, each such a sequence, an epoch has as many samples as all sources have windows, apportioned by
// weight (apportion) and evenly spread (Interleaving). Each source visits its own windows, in a new order each time it
// starts over, and continues in the next epoch where it stopped. Held-out samples of several sources are evenly spread,
// too, each once.
#pragma once

#include "runtime/data/interleave.h"
#include "runtime/data/sources.h"
#include "runtime/data/window.h"

#include <cstdint>
#include <span>
#include <vector>

namespace dtc {

/// A seeded order of 0 .. size-1: a bijection, evaluated one element at a time. A four-round Feistel network on the
/// next even power of two, walked until it lands inside (at most four steps on average).
/// Round r of 0 .. 3 takes halves (left, right) to (right, left ^ bits(stream(key, 0, r), right)), keeping as many low
/// bits as a half has (runtime/abi/random.h). The key of a pass over a source is stream(seed, pass | 2^31, number of
/// the source).
class Permutation {
public:
  Permutation(uint64_t size, uint32_t key);
  uint64_t operator()(uint64_t index) const;

private:
  uint64_t scramble(uint64_t index) const;

  uint64_t size;
  uint32_t key;
  int halfBits = 1;
};

struct SamplerOptions {
  int64_t sequenceLength = 0;
  int64_t vocabulary = 0;
  double validationFraction = 0; ///< of the tokens, held out at their end; unused with separate validation data
  uint64_t seed = 0;
  /// Whether a token that begins a document is not a target, because nothing before it predicts it. All data must then
  /// have document boundaries.
  bool separateDocuments = false;
};

class Sampler {
public:
  /// The target of a position that does not count.
  static constexpr int32_t Ignored = ignoredTarget;

  /// `data` and `validationData` outlive the sampler; `validationData` is null or the tokens to evaluate on. Throws
  /// Error (BadInput) when a source has too few tokens for one training sample, or for one held-out sample though a
  /// validation fraction or validation data is given, when a token is found outside the vocabulary
  /// (TokenData::checkVocabulary), when the masks leave no target, when data to be separated by documents has no
  /// document boundaries, and when a source's weight gives it no sample in an epoch.
  Sampler(const TokenData &data, const SamplerOptions &options, const TokenData *validationData = nullptr);

  Sampler(const std::vector<Source> &sources, const SamplerOptions &options, const TokenData *validationData = nullptr);

  /// The samples of an epoch.
  int64_t trainingSamples() const { return training.order.size(); }
  int64_t validationSamples() const { return heldOut.order.size(); }
  /// How many samples of an epoch come from a source, and how many windows the source has.
  int64_t trainingSamplesOf(size_t source) const { return training.order.count(source); }
  int64_t windowsOf(size_t source) const { return training.parts[source].windows; }

  /// Writes into `values` the slice's tokens or targets of the micro-batch whose first row is training sample number
  /// `position`, counted over all epochs. `values` has localRows * localColumns elements; its padding becomes token 0
  /// or an ignored target. Throws Error (BadInput) for a token outside the vocabulary that checkVocabulary did not
  /// find.
  void fillTraining(SamplePart part, int64_t position, const BatchSlice &slice, std::span<int32_t> values) const;
  /// The same for held-out samples, in their order; rows past the last one are padding.
  void fillValidation(SamplePart part, int64_t position, const BatchSlice &slice, std::span<int32_t> values) const;

private:
  /// Windows of one sequence of tokens.
  struct Part {
    const TokenData *data;
    size_t begin; ///< token of the first window
    int64_t windows;
  };
  struct Parts {
    std::vector<Part> parts;
    Interleaving order;
  };

  struct Weighted {
    const TokenData *data;
    double weight;
  };
  void divide(const std::vector<Weighted> &sources, const TokenData *validationData);
  void apportionTraining(const std::vector<Weighted> &sources);
  Part partOf(const TokenData &data, const char *name, size_t begin, size_t end, bool mustHaveSample) const;
  void check(const TokenData &data) const;
  void fillRow(SamplePart part, const Part &from, int64_t window, const BatchSlice &slice, int32_t *row) const;

  SamplerOptions options;
  Parts training, heldOut;
};

} // namespace dtc
