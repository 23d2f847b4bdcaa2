// dtc verify PROGRAM: a compiled program against the model that it was compiled from.
#pragma once

#include "runtime/abi/manifest.pb.h"
#include "tools/verify/Verify.h"

#include <string>

namespace dtc {

/// Whether `path` is a file that begins as programs do, whatever follows; no model does.
bool looksLikeProgram(const std::string &path);

/// Builds the model again, unpartitioned, from the config.json and the training settings that the program carries, or
/// from `model` (a directory or a .mlir file; empty: none is given), and compares one step of it with what the
/// program's own command lists do on all ranks. Throws Error: BadInput where the program carries no model and none is
/// given, or where a step would take too long or too much memory and `noLimit` is unset.
verify::VerifyReport verifyProgram(const abi::Manifest &program, const std::string &path, const std::string &model,
                                   bool noLimit);

/// Why the kernels' references cannot be parsed; empty: they can.
std::string findUnreadableKernel(const abi::Manifest &program);

} // namespace dtc
