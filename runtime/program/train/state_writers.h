// Which lists change what a checkpoint holds.
#pragma once

#include "runtime/abi/manifest.pb.h"

#include <set>
#include <string>

namespace dtc {

/// The lists of `role` with a command that writes a parameter or a slot. Until such a list runs, the state is what it
/// was after the last one.
std::set<std::string> listsThatWriteState(const abi::Manifest &manifest, const abi::Role &role);

} // namespace dtc
