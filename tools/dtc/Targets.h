// What dtc compiles for.
#pragma once

#include "runtime/abi/version.h"

#include <string>

namespace dtc {

/// The values of --target. "cpu" is "cpu:native".
inline constexpr const char *targetNames[] = {"cpu",        "cpu:native", "cpu:x86-64-v3", "cpu:x86-64-v4",
                                              "cuda:sm_80", "cuda:sm_90", "cuda:sm_100"};

/// What --version says.
inline std::string dtcVersion() {
  std::string text = versionText("dtc") + "targets ";
  for (const char *name : targetNames)
    text += std::string(" ") + name;
  return text;
}

} // namespace dtc
