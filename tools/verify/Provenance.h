// Which collective produced a tensor.
#pragma once

#include "runtime/abi/manifest.pb.h"

#include <string>
#include <vector>

namespace dtc::verify {

/// Walks back from `tensor`'s memory at the end of the last of `executed` (names of lists, in the order they ran)
/// through the commands that wrote it and the memory that these read. Describes the first collective on the way, with
/// list, command and location; or says that there is none.
std::string findCollectiveBehind(const abi::Manifest &manifest, const abi::Role &role,
                                 const std::vector<std::string> &executed, const abi::Tensor &tensor);

} // namespace dtc::verify
