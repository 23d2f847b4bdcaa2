// What a candidate takes at least, without placing it: bytes of the rank that holds most, and seconds of a step. Each
// bound is a formula that holds for whatever the compiler makes of the candidate (bounds.cpp says why), so what is over
// it need not be tried.
#pragma once

#include "timing/plans/candidate.h"
#include "timing/plans/problem.h"

#include <span>
#include <string_view>

namespace dtc::plans {

struct Bound {
  std::string_view name; ///< as the answer has it: "parameters and their state"
  enum class Of { Bytes, Seconds } of;
  double (*value)(const Problem &problem, const Candidate &candidate);
};

/// Those of bytes first. A bound that does not concern a candidate is 0 for it.
std::span<const Bound> bounds();

/// The largest of each kind. The pointers are never null.
struct Least {
  double bytes = 0, seconds = 0;
  const Bound *ofBytes = nullptr, *ofSeconds = nullptr;
};
Least leastOf(const Problem &problem, const Candidate &candidate);

} // namespace dtc::plans
