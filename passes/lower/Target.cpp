#include "passes/lower/Target.h"

using namespace mlir;
using namespace dtc;

/// See runtime/kernels/cpu/kernels.h.
std::optional<std::string> Target::findLibraryKernel(StringRef name) const {
  static constexpr StringLiteral kernels[] = {"gemm",   "attention_forward", "attention_backward", "rotary",
                                              "gather", "scatter_add",       "write_rows",         "copy",
                                              "fill"};
  if (!llvm::is_contained(kernels, name))
    return std::nullopt;
  return (getLibraryPrefix() + name).str();
}

std::optional<LibraryKernel> Target::findLibraryKernel(const dt::LibraryCall &call, std::string &) const {
  std::optional<std::string> symbol = findLibraryKernel(call.kernel);
  return symbol ? std::optional(LibraryKernel{std::move(*symbol)}) : std::nullopt;
}

std::string dtc::passFunction(StringRef kernel, size_t pass) {
  return pass == 0 ? kernel.str() : (kernel + "$" + Twine(pass)).str();
}
