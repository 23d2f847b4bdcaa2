// The generated code of a program, loaded from memory.
#pragma once

#include "runtime/abi/kernel.h"
#include "runtime/support/not_copied.h"

#include <string>
#include <string_view>

namespace dtc {

/// A shared object loaded from bytes through an anonymous file: nothing is written to disk.
class KernelLibrary : NotCopied {
public:
  /// `image` is an ELF shared object; empty makes a library without symbols. Throws Error (BadInput) when the dynamic
  /// linker refuses it.
  explicit KernelLibrary(std::string_view image);
  ~KernelLibrary();

  /// The kernel of that name, or null.
  dtc_kernel_fn find(const std::string &symbol) const;

private:
  void *handle = nullptr;
};

} // namespace dtc
