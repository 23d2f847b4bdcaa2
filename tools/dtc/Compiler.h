// The executable beside dtc that loads LLVM and compiles.
#pragma once

#include <string>
#include <vector>

namespace dtc {

/// Makes this process the compiler, with dtc's own command line. Throws Error where that cannot be run.
[[noreturn]] void becomeCompiler(char **argv);

/// What the compiler prints when it is given `words`; what it says of problems goes to the standard error. Empty where
/// it cannot be run or fails.
std::string askCompiler(std::vector<std::string> words);

} // namespace dtc
