#include "runtime/device/cuda/driver.h"

#include "runtime/support/error.h"
#include "runtime/support/vendor_library.h"

namespace dtc::cuda {

static constexpr const char *LibraryName = "libcuda.so.1";

static std::string versionText(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

Driver::Driver() {
  load();
  initialize();
}

void Driver::load() {
  VendorLibrary library(LibraryName, "this program was compiled for NVIDIA GPUs, and their driver cannot be loaded: ",
                        "; install NVIDIA's driver, or compile the program with --target cpu");
  DTC_CUDA_FUNCTIONS(DTC_VENDOR_FIND)
  if (driverGetVersion && driverGetVersion(&driverVersion) == Success && driverVersion < OldestVersion)
    throw Error("NVIDIA's driver is too old: it knows CUDA " + versionText(driverVersion) + ", and programs need " +
                versionText(OldestVersion) + "; install a newer driver, or compile the program with --target cpu");
  library.requireFound(std::string("NVIDIA's driver, ") + LibraryName + ",",
                       "; install a newer driver, or compile the program with --target cpu");
}

void Driver::initialize() {
  int result = init(0);
  if (result == Success)
    result = deviceGetCount(&deviceCount);
  if (result == NoDevice || (result == Success && deviceCount == 0))
    throw Error("this program was compiled for NVIDIA GPUs, and there is none here, or none that CUDA_VISIBLE_DEVICES "
                "shows; compile it with --target cpu to run it on the processor");
  check(result, "NVIDIA's driver cannot be used");
}

std::string Driver::describe(int result) const {
  const char *name = nullptr, *words = nullptr;
  getErrorName(result, &name);
  getErrorString(result, &words);
  return (name ? name : "error " + std::to_string(result)) + (words ? " (" + std::string(words) + ")" : "");
}

void Driver::check(int result, const char *what) const {
  if (result != Success)
    throw Error(std::string(what) + ": " + describe(result));
}

} // namespace dtc::cuda
