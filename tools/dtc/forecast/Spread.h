// Whether a machine was idle while it was measured.
#pragma once

#include <string>
#include <vector>

namespace dtc {

/// How much the steps of one program differ: half of them are within their median times 1 ± this. At least one step.
double spreadOf(const std::vector<double> &steps);

/// A warning where the steps of most programs differ much, given the spread of each program; empty: they do not. At
/// least one program.
std::string loadWarning(const std::vector<double> &spreads);

} // namespace dtc
