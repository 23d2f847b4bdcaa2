// What a program says of its work beside what its commands do: roles, timetables, parts of the step, layers and work.
#pragma once

#include "runtime/abi/manifest.pb.h"

#include <string>

namespace dtc::verify {

/// What differs between a program's roles, timetables and commands' marks and work and those of `expected`, the same
/// model compiled once more; or an empty string. Lists of other lengths are another compiler's, of which nothing is said.
std::string findMarkDifference(const abi::Manifest &program, const abi::Manifest &expected);

} // namespace dtc::verify
