#include "runtime/device/cuda/library.h"

namespace dtc::cuda {

LibraryFunction findLibraryFunction(std::string_view) { return nullptr; }

} // namespace dtc::cuda
