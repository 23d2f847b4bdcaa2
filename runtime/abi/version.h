// What this build is, for --version and for bug reports.
#pragma once

#include <string>

namespace dtc {

/// "NAME 0.1.0" and lines for the commit that it was built from, the platform that it runs on and LLVM's version.
std::string versionText(const std::string &name);

} // namespace dtc
