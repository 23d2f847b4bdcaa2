// From what the compiler has produced to a file that runs.
#pragma once

#include "passes/pipelines/Compile.h"

#include <string>

namespace dtc {

/// Throws Error (Runtime) where the executable that every program begins with is missing, so that this is known before
/// the work.
void requireRuntime();

/// Writes an executable file. Throws Error (Runtime) where it cannot be written.
void writeProgram(const CompiledProgram &program, const std::string &path);

} // namespace dtc
