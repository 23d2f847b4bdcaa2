#include "runtime/support/vendor_library.h"

#include "runtime/support/error.h"

#include <dlfcn.h>

namespace dtc {

VendorLibrary::VendorLibrary(const char *name, const std::string &before, const std::string &after)
    : handle(dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)) {
  if (handle)
    return;
  const char *reason = dlerror();
  throw Error(before + (reason ? reason : name) + after);
}

void *VendorLibrary::addressOf(const char *symbol) const { return dlsym(handle, symbol); }

void VendorLibrary::requireFound(const std::string &owner, const std::string &after) const {
  if (missing)
    throw Error(owner + " has no function '" + missing + "'" + after);
}

void loadFirst(std::span<const char *const> names, const std::string &before, const std::string &after,
               const std::function<void(const char *name)> &load) {
  std::string reasons;
  for (const char *name : names) {
    try {
      load(name);
      return;
    } catch (const Error &error) {
      reasons += (reasons.empty() ? "" : "; ") + std::string(error.what());
    }
  }
  throw Error(before + reasons + after);
}

} // namespace dtc
