// dtc verify PROGRAM: runs the machine code of a program's kernels.
#pragma once

#include "tools/verify/CodeCheck.h"

#include <optional>
#include <string>

namespace dtc {

/// Runs the program's kernels and compares them with their meaning, in a child process: wrong code may do anything.
/// Nothing where this machine cannot run them, with the reason in `why`. Throws Error (Runtime) when no child can be
/// started.
std::optional<verify::CodeReport> verifyCode(const abi::Manifest &program, const std::string &path, std::string &why);

} // namespace dtc
