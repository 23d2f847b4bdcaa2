#include "runtime/kernels/cuda/cudnn.h"

#include "runtime/support/error.h"
#include "runtime/support/vendor_library.h"

#include <array>

namespace dtc::cudnn {

static std::string textOf(size_t version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

Library::Library(const char *name) {
  VendorLibrary library(name, "cuDNN cannot be loaded: ");
  DTC_CUDNN_FUNCTIONS(DTC_VENDOR_FIND)
  if (getVersion && getVersion() < OldestVersion)
    throw Error(std::string(name) + " is cuDNN " + versionText() + ", and " + textOf(OldestVersion) +
                " or later is needed");
  library.requireFound(name);
}

std::string Library::versionText() const { return textOf(getVersion()); }

void Library::check(int status, const char *what) const {
  if (status == Success)
    return;
  std::array<char, 512> words = {};
  getLastErrorString(words.data(), words.size());
  throw Error(std::string(what) + ": cuDNN says " + getErrorString(status) +
              (words[0] ? " (" + std::string(words.data()) + ")" : ""));
}

} // namespace dtc::cudnn
