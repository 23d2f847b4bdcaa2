// Whether a machine was idle while it was measured.
#pragma once

#include <string>
#include <vector>

namespace dtc {

/// How much the steps of one program differ: half of them lie within their median times 1 ± this. At least one step.
double spreadOf(const std::vector<double> &steps);

/// What to say where the steps of most programs differ much, of which each has such a spread; empty: they do not. At
/// least one program.
std::string loadWarning(const std::vector<double> &spreads);

} // namespace dtc
