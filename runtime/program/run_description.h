// What a run records about itself when it begins.
#pragma once

#include "runtime/abi/manifest.pb.h"

#include <string>

namespace dtc {

/// Writes RunFiles::Settings, which can be compiled with again, and RunFiles::Manifest, which 'dtc report' reads, into
/// a run's folder. `training`: the manifest's with the user's changes. Throws Error (Runtime) naming path and reason.
void describeRun(const std::string &folder, const abi::Manifest &manifest, const abi::Training &training);

/// "dp=2,tp=2".
std::string describeMesh(const abi::Mesh &mesh);

} // namespace dtc
