#include "runtime/kernels/cuda/cublaslt.h"

#include "runtime/support/error.h"
#include "runtime/support/vendor_library.h"

namespace dtc::cublaslt {

static constexpr const char *Remedy =
    "; install the cuBLAS of CUDA 12 or 13 where the loader finds it (LD_LIBRARY_PATH), "
    "or compile the program for a processor";

static std::string versionText(size_t version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

std::vector<const char *> namesFor(int driverVersion) {
  constexpr const char *Of12 = "libcublasLt.so.12", *Of13 = "libcublasLt.so.13";
  constexpr int Cuda13 = 13000;
  return driverVersion < Cuda13 ? std::vector{Of12, Of13} : std::vector{Of13, Of12};
}

Library::Library(std::span<const char *const> names) {
  loadFirst(names, "products on NVIDIA GPUs are cuBLASLt's, and it cannot be used: ", Remedy,
            [this](const char *name) { load(name); });
}

Library::~Library() { destroy(state); }

void Library::load(const char *name) {
  VendorLibrary library(name);
  DTC_CUBLASLT_FUNCTIONS(DTC_VENDOR_FIND)
  library.requireFound(name);
  if (size_t version = getVersion(); version < OldestVersion || version > NewestVersion)
    throw Error(std::string(name) + " is cuBLASLt " + versionText(version) + ", and programs need one of " +
                versionText(OldestVersion) + " to " + versionText(NewestVersion));
  check(create(&state), std::string("cannot use ") + name);
}

void Library::check(int status, const std::string &what) const {
  if (status != Success)
    throw Error(what + ": cuBLASLt says " + getStatusName(status));
}

} // namespace dtc::cublaslt
