// What a program's commands say of themselves beside what they do: parts of the step, layers and work.
#pragma once

#include "runtime/abi/manifest.pb.h"

#include <string>

namespace dtc::verify {

/// What differs between the commands' marks and work and those of `expected`, the same model compiled once more; or an
/// empty string. Lists of other lengths are another compiler's, of which nothing is said.
std::string findMarkDifference(const abi::Manifest &program, const abi::Manifest &expected);

} // namespace dtc::verify
