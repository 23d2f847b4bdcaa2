// A model small enough to write its manifest by hand, yet with everything that the host side of a program deals with:
// batches split over dp, a parameter split over tp with padding and stored permuted in its file, an optimizer moment,
// a data-dependent loss, accumulation and evaluation.
//
// One parameter `table` [5]; sample tokens t with target u contribute (table[t] - u)^2 to the loss. The optimizer is
// SGD with momentum 0.9 on the summed gradient divided by the number of tokens. A second parameter `frozen` [2, 3] is
// never updated: it shows where elements go.
#pragma once

#include "runtime/abi/manifest.pb.h"

#include <string>

namespace dtc::test {

struct ToyOptions {
  int64_t dp = 1, tp = 1;
  int64_t accumulation = 1;
  int64_t globalBatch = 8;
  int64_t sleepMicroseconds = 0; ///< per micro-batch, to be interrupted
  /// Where memory is corrupted, once: in the first element of a tensor, when a list ends for the n-th time.
  struct Flip {
    std::string list, tensor; ///< "turn" and "table", or "begin" and "table.gradient"
    int64_t rank = 0, call = 0;
  };
  Flip flip = {}; ///< nowhere where it names no list
};

/// The manifest of the toy model; its kernels are in toy_kernels.cpp.
abi::Manifest toyManifest(const ToyOptions &options);

} // namespace dtc::test
