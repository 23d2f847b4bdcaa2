// What a program says about its work apart from what its commands do: roles, timetables, parts of the step, layers and
// work.
#pragma once

#include "runtime/abi/manifest.pb.h"

#include <string>

namespace dtc::verify {

/// How the roles, timetables and the commands' marks and work of a program differ from those of `expected`, the same
/// model compiled again; or an empty string. Lists of different lengths come from another compiler and are not
/// compared.
std::string findMarkDifference(const abi::Manifest &program, const abi::Manifest &expected);

} // namespace dtc::verify
