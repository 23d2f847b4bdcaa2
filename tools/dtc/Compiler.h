// The executables and scripts beside dtc: above all the one that loads LLVM and compiles.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace dtc {

/// A part of dtc that is no verb: beside this executable where both were built, in libexec where they were installed.
std::string partPath(const std::string &name);

/// Makes this process the compiler, with dtc's own command line. Throws Error where that cannot be run.
[[noreturn]] void becomeCompiler(char **argv);

/// Makes this process the executable that programs are made of, which completes the last of a program's arguments.
[[noreturn]] void completeForProgram(std::vector<std::string> words);

struct CompilerAnswer {
  std::string text; ///< what it printed; empty where it failed or cannot be run
  int exitCode = 0; ///< 128 + n where signal n ended it
};

/// Gives the compiler `words`; what it says of problems goes to the standard error. A Ctrl-C is for the compiler alone.
CompilerAnswer askCompiler(std::vector<std::string> words);

/// Likewise, and throws Error with the compiler's own exit code and message where it fails; says nothing itself.
void requireCompiled(std::vector<std::string> words);

/// Of a verb that the driver asks for itself: its JSON, or null where it failed, and then the exit code. A signal that
/// ended it ends this process too.
nlohmann::json askForJson(std::vector<std::string> words, int *exitCode = nullptr);

} // namespace dtc
