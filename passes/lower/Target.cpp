#include "passes/lower/Target.h"
#include "runtime/abi/library/all.h"

using namespace mlir;
using namespace dtc;

std::optional<std::string> Target::findLibraryKernel(StringRef name) const {
  if (llvm::none_of(abi::library::allKernels, [&](const auto *table) { return name == StringRef(table->name); }))
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
