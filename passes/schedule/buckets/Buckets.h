// Which starts of a list go together, and the order of its commands that follows: on numbers alone.
#pragma once

#include "passes/choices/Choices.h"
#include "passes/schedule/FlatStep.h"

namespace dtc {

/// What starts must have in common to be parts of one: what one call of a transport can carry out.
std::string bucketKey(const FlatCommand &start, const FlatMove &move);

/// Starts that go together, at the last one's place.
struct Bucket {
  std::vector<int> starts; ///< by number, in order; several
  const BucketRule *rule;
};

/// The buckets of a function by these rules. A bucket ends where it would have more layers than its rule says, or more
/// parts than one start may have. It also ends before something that must come after one of its parts, such as the
/// first wait, since the other parts would not have been started. `function` is in the order in which it was found.
std::vector<Bucket> findBuckets(const std::vector<BucketRule> &rules, const FlatFunction &function,
                                const std::vector<FlatMove> &moves);

/// The order in which each bucket's starts are where its last one was, and their waits where the first of them was.
FlatOrder orderOf(const std::vector<Bucket> &buckets, const FlatFunction &function);

/// The first rule that names a start that no function has, or one that no bucket may have; or an empty string.
std::string findUnknownStart(const std::vector<BucketRule> &rules, const std::vector<const FlatRole *> &roles);

} // namespace dtc
