// `dtc verify`: the logical program against the command lists that it was compiled to, both in f64 on the same seeded
// values. What is checked is what runs: the lists are the ones that the executor walks.
#pragma once

#include "tools/verify/Expectation.h"

#include <string>
#include <vector>

namespace dtc::verify {

struct VerifyOptions {
  uint64_t seed = 1;
  double tolerance = 1e-9; ///< relative; see Comparison
};

/// One tensor of one list's results. With a the logical value, b the compiled one and norms over all elements:
///   gradients        |a - b| <= tolerance * max(|a|, 1e-3 * root mean square of the norms of all gradients),
///                    because some gradients (key biases) are mathematically zero;
///   state            |a - b| <= tolerance * |a - its value before the list|: the update is what is compared;
///   everything else  |a - b| <= tolerance * |a|.
struct Comparison {
  std::string list, tensor;
  double error, bound;
  bool agrees() const { return error <= bound; } ///< false for NaN
};

struct VerifyReport {
  std::vector<Comparison> comparisons; ///< up to the first that disagrees
  std::string failure;                 ///< empty: all agree; else what differs first and the collective behind it
};

/// Runs one step (as the manifest's timetable says) and the evaluation list. `logical` is the module in Form 1 that
/// `compiled` was made from. Throws Error (BadInput) when the two do not belong together.
VerifyReport verify(mlir::ModuleOp logical, const abi::Manifest &compiled, const VerifyOptions &options = {});

/// The same against an expectation made before, for many programs of one model.
VerifyReport verify(const Expectation &expectation, const abi::Manifest &compiled, double tolerance);

/// The size of the vocabulary, which bounds tokens. Throws BadInput when the program's symbols lack it.
int64_t vocabularyOf(const abi::Manifest &manifest);

} // namespace dtc::verify
