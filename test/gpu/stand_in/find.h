// How stand-ins of NVIDIA's libraries, and tests, find what the stand-in driver has besides the driver's functions.
#pragma once

#include "test/gpu/stand_in/stand_in.h"

#include <dlfcn.h>

namespace dtc::test {

/// A function of the stand-in driver; null where that is not loaded.
template <typename Function> Function *findInDriver(const char *name) {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (!driver)
    return nullptr;
  auto *found = reinterpret_cast<Function *>(dlsym(driver, name));
  dlclose(driver); // whoever loaded it keeps it
  return found;
}

} // namespace dtc::test
