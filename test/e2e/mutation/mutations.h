// Every way in which one collective, launch, parameter or input of a compiled program can be wrong.
#pragma once

#include "runtime/abi/manifest.pb.h"

#include <string>
#include <vector>

namespace dtc::test {

struct Mutant {
  std::string description; ///< e.g. "list 'micro_last', command 12 (all-reduce of ...): duplicated"
  abi::Manifest manifest;
  /// Why the mutant means the same as the original; empty: it does not.
  std::string equivalence;
};

/// For each collective of each list of the one role: deleted with its wait; done twice; over each other set of whole
/// mesh axes; its wait dropped.
///
/// Mutants are equivalent by one of these rules and no other:
///   E1  A collective out of place, done twice in a row, reads an unchanged source and writes the same result.
///   E2  A maximum in place, done twice in a row, is idempotent.
///   E3  A maximum over more ranks than before. Programs take maxima only to shift exponents (softmax and
///       cross-entropy), where any shift works that all members of the original group share.
///   E8  A deleted collective whose result is still there: an earlier one of the list was the same, and its source and
///       result have not been written since. For example, a parameter that is gathered twice in a row, to one place.
std::vector<Mutant> makeMutants(const abi::Manifest &original);

/// For each launch that differs from others of its list in more than buffers: each scalar changed; a rank's index as
/// rank 0 has it; the grid one smaller and one larger.
///
/// Mutants are equivalent by one of these rules and no other:
///   E4  The stride of a dimension of one element.
///   E5  Where nothing is dropped out: the site and the place of the piece, which only number the draws.
///   E6  Of a copy whose source has no end: the dimension along which it would end and where the copy begins in it.
///   E7  Whether threads divide the rows or the columns of a square product: the grid is the same.
///   E9  Of a rotary embedding whose scaling divides by 1: which frequencies it keeps.
std::vector<Mutant> makeLaunchMutants(const abi::Manifest &original);

/// For each parameter: neighbours of its permutation, of its shape in the file and of its factored shape exchanged;
/// another parameter's name; decay or not. None is equivalent.
std::vector<Mutant> makeFileMutants(const abi::Manifest &original);

/// For each input that is split: not split, split by each other axis, split along another dimension. None is
/// equivalent.
std::vector<Mutant> makePlacementMutants(const abi::Manifest &original);

} // namespace dtc::test
