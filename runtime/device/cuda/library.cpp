#include "runtime/device/cuda/library.h"

#include "runtime/device/cuda/products.h"

namespace dtc::cuda {

LibraryResolver makeLibraryResolver(ProductChoices choices) {
  return [choices, products = LibraryFunction()](std::string_view symbol) mutable -> LibraryFunction {
    if (symbol != "dtc_cuda_gemm" && !symbol.starts_with("dtc_cuda_product$"))
      return nullptr;
    if (!products)
      products = makeProducts(choices);
    return products;
  };
}

} // namespace dtc::cuda
