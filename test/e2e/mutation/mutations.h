// Every way in which one collective of a compiled program can be wrong.
#pragma once

#include "runtime/abi/manifest.pb.h"

#include <string>
#include <vector>

namespace dtc::test {

struct Mutant {
  std::string description; ///< e.g. "list 'micro_first', command 12 (all-reduce of ...): duplicated"
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
///       cross-entropy), where any shift will do that all members of the original group share.
std::vector<Mutant> makeMutants(const abi::Manifest &original);

} // namespace dtc::test
