#include "runtime/kernels/cuda/cudnn.h"

#include "runtime/support/error.h"

#include <array>
#include <dlfcn.h>

namespace dtc::cudnn {

static std::string textOf(size_t version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

Library::Library(const char *name) {
  void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!library) {
    const char *reason = dlerror();
    throw Error(std::string("cuDNN cannot be loaded: ") + (reason ? reason : name));
  }
  load(library, name);
}

void Library::load(void *library, const char *name) {
  const char *missing = nullptr;
#define DTC_CUDNN_FIND(member, symbol, ...)                                                                            \
  member = reinterpret_cast<member##_fn *>(dlsym(library, #symbol));                                                   \
  if (!member && !missing)                                                                                             \
    missing = #symbol;
  DTC_CUDNN_FUNCTIONS(DTC_CUDNN_FIND)
#undef DTC_CUDNN_FIND
  if (getVersion && getVersion() < OldestVersion)
    throw Error(std::string(name) + " is cuDNN " + versionText() + ", and " + textOf(OldestVersion) +
                " or later is needed");
  if (missing)
    throw Error(std::string(name) + " has no function '" + missing + "'");
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
