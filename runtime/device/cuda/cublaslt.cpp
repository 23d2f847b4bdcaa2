#include "runtime/device/cuda/cublaslt.h"

#include "runtime/abi/error.h"

#include <dlfcn.h>

namespace dtc::cublaslt {

static constexpr const char *Remedy =
    "; install the cuBLAS of CUDA 12 or 13 where the loader finds it (LD_LIBRARY_PATH), "
    "or compile the program for a processor";

static std::string versionText(size_t version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

Library::Library(std::span<const char *const> names) {
  std::string reasons;
  for (const char *name : names) {
    library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      const char *reason = dlerror();
      reasons += (reasons.empty() ? "" : "; ") + std::string(reason ? reason : name);
      continue;
    }
    try {
      load(name);
    } catch (...) {
      dlclose(library);
      throw;
    }
    return;
  }
  throw Error("products on NVIDIA GPUs are cuBLASLt's, and it cannot be loaded: " + reasons + Remedy);
}

Library::~Library() { dlclose(library); }

void Library::load(const char *name) {
  const char *missing = nullptr;
#define DTC_CUBLASLT_FIND(member, symbol, ...)                                                                         \
  member = reinterpret_cast<member##_fn *>(dlsym(library, #symbol));                                                   \
  if (!member && !missing)                                                                                             \
    missing = #symbol;
  DTC_CUBLASLT_FUNCTIONS(DTC_CUBLASLT_FIND)
#undef DTC_CUBLASLT_FIND
  if (missing)
    throw Error(std::string(name) + " has no function '" + missing + "'" + Remedy);
  if (size_t version = getVersion(); version < OldestVersion || version > NewestVersion)
    throw Error(std::string(name) + " is cuBLASLt " + versionText(version) + ", and programs need one of " +
                versionText(OldestVersion) + " to " + versionText(NewestVersion) + Remedy);
}

void Library::check(int status, const std::string &what) const {
  if (status != Success)
    throw Error(what + ": cuBLASLt says " + getStatusName(status));
}

} // namespace dtc::cublaslt
