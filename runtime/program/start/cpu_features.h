// Does this machine have what the program was compiled for?
#pragma once

#include "runtime/abi/manifest.pb.h"

#include <set>
#include <string>
#include <string_view>

namespace dtc {

/// The CPU's features as the operating system enables them, under the names of /proc/cpuinfo without punctuation
/// ("avx512vnni", "sse42").
std::set<std::string, std::less<>> machineCpuFeatures();

/// True when `feature`, an LLVM feature name such as "avx512f", "sse4.2" or "amx-bf16", is among `machine`'s.
bool hasCpuFeature(const std::set<std::string, std::less<>> &machine, std::string_view feature);

/// Throws Error (Runtime) naming the first of the manifest's target features that this machine lacks.
void requireCpuFeatures(const abi::Manifest &manifest);

} // namespace dtc
