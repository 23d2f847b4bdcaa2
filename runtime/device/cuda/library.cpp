#include "runtime/device/cuda/library.h"

#include "runtime/device/cuda/products.h"

namespace dtc::cuda {

LibraryFunction findLibraryFunction(std::string_view symbol) {
  return symbol == "dtc_cuda_gemm" ? makeProducts() : nullptr;
}

} // namespace dtc::cuda
