// Which tokens go where: the same sequence of samples whatever the mesh, the accumulation and the batch size.
//
// A sample is a window of sequence_length + 1 tokens: inputs and, one further, targets. Neighbouring windows share one
// token, so that every token but the first is a target once. Several token files are one sequence, laid end to end. The
// windows are cut from its front; its end is held out for evaluation, unless data of their own are given for that. A
// target that the loss mask leaves out is an ignored one.
//
// Training goes through the windows in a seeded order, another each epoch. The order is a keyed bijection computed on
// the fly, so the whole state of the data is one number: how many samples have been used. Row r of the global batch
// that begins at sample p is sample p + r; micro-batch k of m has the rows [k G/m, (k+1) G/m); a rank reads the rows
// and columns that the sharding of each of the program's inputs gives it.
#pragma once

#include "runtime/data/token_data.h"

#include <cstdint>
#include <span>

namespace dtc {

/// A seeded order of 0 .. size-1: a bijection, evaluated one element at a time. A four-round Feistel network on the
/// next even power of two, walked until it lands inside (at most four steps on average).
/// Round r of 0 .. 3 takes halves (left, right) to (right, left ^ bits(stream(key, 0, r), right)), of which it keeps as
/// many low bits as a half has (runtime/abi/random.h). An epoch's key is stream(seed, epoch | 2^31, 0).
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

/// What of a sample an input holds.
enum class SamplePart { Tokens, Targets };

/// The rows and columns of one input's micro-batch that this rank stores, and how they lie in its memory.
struct BatchSlice {
  int64_t firstRow = 0, rows = 0;       ///< of the micro-batch, without padding
  int64_t firstColumn = 0, columns = 0; ///< of the sequence, without padding
  int64_t localRows = 0, localColumns = 0;
};

struct SamplerOptions {
  int64_t sequenceLength = 0;
  int64_t vocabulary = 0;
  double validationFraction = 0; ///< of the tokens, held out at their end; not used with validation data of their own
  uint64_t seed = 0;
};

class Sampler {
public:
  /// Target of a position that does not count.
  static constexpr int32_t Ignored = -100;

  /// `data` outlive the sampler, as `validationData` do, which are null or the tokens to evaluate on. Throws Error
  /// (BadInput) when there are too few tokens for one training sample, or for one held-out sample though a validation
  /// fraction or data are given, when one is seen to be outside the vocabulary (TokenData::checkVocabulary), and when
  /// the masks leave no target.
  Sampler(const TokenData &data, const SamplerOptions &options, const TokenData *validationData = nullptr);

  int64_t trainingSamples() const { return training; }
  int64_t validationSamples() const { return validation; }

  /// Writes into `values` the slice's tokens or targets of the micro-batch whose first row is training sample number
  /// `position`, counted over all epochs. `values` has localRows * localColumns elements; its padding becomes token 0
  /// or an ignored target. Throws Error (BadInput) for a token outside the vocabulary that was not seen before.
  void fillTraining(SamplePart part, int64_t position, const BatchSlice &slice, std::span<int32_t> values) const;
  /// The same for held-out samples, in their order; rows past the last one are padding.
  void fillValidation(SamplePart part, int64_t position, const BatchSlice &slice, std::span<int32_t> values) const;

private:
  void check(const TokenData &data) const;
  void fillRow(const TokenData &from, SamplePart part, size_t windowBegin, const BatchSlice &slice, int32_t *row) const;

  const TokenData &data, &heldOut;
  SamplerOptions options;
  int64_t training = 0, validation = 0;
  size_t validationBegin = 0; ///< first held-out token of `heldOut`
};

} // namespace dtc
