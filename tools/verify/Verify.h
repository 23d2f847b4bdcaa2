// `dtc verify`: compares the logical program with what it was compiled to, both in f64 on the same seeded values. It
// checks what really runs: the command lists are those that the executor walks.
#pragma once

#include "tools/verify/Expectation.h"
#include "tools/verify/Subject.h"

#include <functional>
#include <string>
#include <vector>

namespace dtc::verify {

/// One tensor of one list's results. With a the logical value, b the compiled value and norms over all elements:
///   gradients        |a - b| <= tolerance * max(|a|, 1e-3 * root mean square of the norms of all gradients),
///                    because some gradients (key biases) are mathematically zero;
///   state            |a - b| <= tolerance * max(u, 1e-3 * root mean square of the u of all parameters, 1e-6 * |a|)
///                    with u = |a - its value before the list|: the update is what is compared. An update by a gradient
///                    that is mathematically zero is rounding noise, and a small one is lost in what it is added to;
///   everything else  |a - b| <= tolerance * |a|.
struct Comparison {
  std::string list, tensor;
  double error, bound;
  bool agrees() const { return error <= bound; } ///< false for NaN
};

struct VerifyReport {
  std::vector<Comparison> comparisons; ///< up to the first disagreement
  std::string failure;                 ///< empty: all agree; else the first difference and the collective behind it
};

/// The relative tolerance of `dtc verify` and of every test in f64.
inline constexpr double f64Tolerance = 1e-9;

/// All ranks run in one process: at most this many.
inline constexpr int mostRanks = 64;

/// Runs the subject through the expectation's lists up to the first disagreement. Throws Error (BadInput) when the two
/// do not belong together.
VerifyReport verify(const Expectation &expectation, Subject &subject, double tolerance = f64Tolerance);

/// Called after each command with the part of the ranks' commands that has been run: 0 to 1.
using Progress = std::function<void(double part)>;

/// The same for a manifest's command lists. A program that cannot be run at all is a failure too, and so is one that
/// describes its parameters in the model file differently from the model (FileLayout.h).
VerifyReport verify(const Expectation &expectation, const abi::Manifest &compiled, double tolerance = f64Tolerance,
                    const Progress &progress = {});

/// The size of the vocabulary, which bounds tokens. Throws BadInput when the program's symbols lack it.
int64_t vocabularyOf(const abi::Manifest &manifest);

} // namespace dtc::verify
