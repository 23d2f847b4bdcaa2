// What a candidate takes at least, without placing it: bytes of the rank that holds most, and seconds of a step. Each
// bound is a formula that holds for whatever the compiler makes of the candidate (bounds.cpp says why): for any cut of
// a pipeline, any order, any buckets. So what is over it need not be tried.
//
// They assume what holds for all families of models that dtc reads: layers have equal parameters, every matrix of a
// layer multiplies every token once, and the head follows the last layer.
#pragma once

#include "timing/plans/bound_context.h"
#include "timing/plans/bound_inputs.h"
#include "timing/plans/candidate.h"
#include "timing/plans/problem.h"

#include <span>
#include <string_view>

namespace dtc::plans {

struct Bound {
  std::string_view name; ///< as the answer has it: "parameters and their state"
  enum class Of { Bytes, Seconds } of;
  double (*value)(const BoundInputs &inputs);
};

/// Those of bytes first. A bound that does not concern a candidate is 0 for it.
std::span<const Bound> bounds();

/// The largest of each kind. The pointers are never null.
struct Least {
  double bytes = 0, seconds = 0;
  const Bound *ofBytes = nullptr, *ofSeconds = nullptr;
};
Least leastOf(const BoundInputs &inputs);
Least leastOf(const BoundContext &context, const Candidate &candidate);

/// About what a step takes: a hint in which order to try candidates, no bound. Sums over tensor-parallel ranks, two for
/// each layer, are in the way of what is computed. Exchanges of state overlap with it but for a part, unless they come
/// behind a pipeline's passes.
double expectedSeconds(const BoundInputs &inputs);

/// At least what the update of a step takes on the rank that updates most, without a pipeline.
double updateSeconds(const BoundContext &context, const Candidate &candidate);

/// What share of Evaluated::floor of one candidate its relatives take at least. Products of two programs may differ in
/// what is fused to them: up to 16 operations for an element of the result, each of which takes twice as many as the
/// product is deep, hidden / tp or more but for narrow feed-forward blocks, hence another factor of 2. 0: no floor
/// holds.
double floorShare(const Problem &problem, const Candidate &candidate);

} // namespace dtc::plans
