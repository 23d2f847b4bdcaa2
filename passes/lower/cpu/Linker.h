// Linking within this process: users need no linker.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/LogicalResult.h"

#include <string>

namespace dtc {

/// Links relocatable ELF objects into a shared object. Undefined symbols are errors. On failure `error` receives the
/// linker's messages.
llvm::FailureOr<std::string> linkSharedObject(llvm::ArrayRef<llvm::SmallVector<char>> objects, std::string &error);

} // namespace dtc
