#include "runtime/program/start/kernel_library.h"

#include "runtime/support/error.h"
#include "runtime/support/limits.h"

#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

namespace dtc {

static bool writeAll(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t written = write(file, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR)
      return false;
    if (written > 0)
      bytes.remove_prefix(written);
  }
  return true;
}

KernelLibrary::KernelLibrary(std::string_view image) {
  if (image.empty())
    return;
  int file = memfd_create("dtc-kernels", MFD_CLOEXEC);
  if (file < 0 || !writeAll(file, image)) {
    std::string reason = std::strerror(errno);
    if (file >= 0)
      close(file);
    throw Error("cannot hold the program's kernels in memory: " + reason);
  }
  handle = dlopen(("/proc/self/fd/" + std::to_string(file)).c_str(), RTLD_NOW | RTLD_LOCAL);
  std::string reason = handle ? "" : dlerror();
  int spare = handle ? -1 : dup(file), number = handle || spare >= 0 ? 0 : errno; // dlopen gives words alone
  if (spare >= 0)
    close(spare);
  close(file);
  if (!handle)
    throw Error(exitCodeOf(number, ExitCode::BadInput),
                "cannot load the program's kernels: " + reason + limitRemedy(number));
}

KernelLibrary::~KernelLibrary() {
  if (handle)
    dlclose(handle);
}

dtc_kernel_fn KernelLibrary::find(const std::string &symbol) const {
  return handle ? reinterpret_cast<dtc_kernel_fn>(dlsym(handle, symbol.c_str())) : nullptr;
}

} // namespace dtc
