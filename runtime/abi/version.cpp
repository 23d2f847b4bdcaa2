// Alone in its library, which only executables link: a new commit recompiles only this file and relinks them.
#include "runtime/abi/version.h"

#include "runtime/abi/commit.h"

namespace dtc {

std::string versionText(const std::string &name) {
  return name + " " DTC_VERSION "\n"
                "commit   " DTC_COMMIT "\n"
                "host     " DTC_TRIPLE "\n"
                "LLVM     " DTC_LLVM_VERSION "\n";
}

} // namespace dtc
