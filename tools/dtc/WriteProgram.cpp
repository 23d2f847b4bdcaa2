#include "tools/dtc/WriteProgram.h"

#include "runtime/abi/container.h"
#include "runtime/support/error.h"

#include <filesystem>
#include <fmt/format.h>

namespace dtc {

/// The executable that every program begins with: it is stored next to this one.
static std::string runtimePath() {
  std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "dtc-program";
  if (!std::filesystem::exists(path))
    throw Error(ExitCode::Runtime,
                fmt::format("{} is missing, which every program begins with; install dtc again", path.string()));
  return path;
}

void requireRuntime() { (void)runtimePath(); }

void writeProgram(const CompiledProgram &program, const std::string &path) {
  writeProgram(runtimePath(), program.manifest.SerializeAsString(), program.code, path);
}

} // namespace dtc
