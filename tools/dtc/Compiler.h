// The executables and scripts next to dtc: above all the one that loads LLVM and compiles.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace dtc {

/// A part of dtc that is not a verb: next to this executable in a build directory, in libexec once installed.
std::string partPath(const std::string &name);

/// Replaces this process by the compiler, with dtc's own command line. Throws Error where that cannot be run.
[[noreturn]] void becomeCompiler(char **argv);

/// Replaces this process by the executable that programs are made of, which completes the last argument of a program.
[[noreturn]] void completeForProgram(std::vector<std::string> words);

struct CompilerAnswer {
  std::string text; ///< what it printed; empty where it failed or cannot be run
  int exitCode = 0; ///< 128 + n where signal n ended it
};

/// Runs the compiler with the arguments `words`; its messages go to the standard error. A Ctrl-C is left to the
/// compiler.
CompilerAnswer askCompiler(std::vector<std::string> words);

/// Likewise, but prints nothing, and throws Error with the compiler's exit code and message where it fails.
void requireCompiled(std::vector<std::string> words);

/// The JSON answer of a verb that the driver itself runs, or null and the exit code where it failed. A signal that
/// ended the verb ends this process too.
nlohmann::json askForJson(std::vector<std::string> words, int *exitCode = nullptr);

} // namespace dtc
