// The named sizes of a program's model.
#pragma once

#include "runtime/abi/manifest.pb.h"
#include "runtime/support/error.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace dtc::abi {

/// Throws Error (BadInput) if the program does not have it.
inline int64_t sizeOf(const Manifest &manifest, std::string_view name) {
  for (const Symbol &symbol : manifest.symbols())
    if (symbol.name() == name)
      return symbol.size();
  throw Error(ExitCode::BadInput, "damaged program: it does not give the size '" + std::string(name) + "'");
}

} // namespace dtc::abi
