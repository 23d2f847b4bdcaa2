#include "runtime/kernels/cuda/library.h"

#include "runtime/kernels/cuda/products.h"

#include <utility>

namespace dtc::cuda {

LibraryResolver makeLibraryResolver(ProductChoices choices) {
  return [choices = std::move(choices),
          products = LibraryFunction()](const Gpu &gpu, std::string_view symbol) mutable -> LibraryFunction {
    if (symbol != "dtc_cuda_gemm" && !symbol.starts_with("dtc_cuda_product$"))
      return nullptr;
    choices.gpu = gpu.modelName();
    if (!products)
      products = makeProducts(choices, cublaslt::namesFor(gpu.driver.version()));
    return products;
  };
}

} // namespace dtc::cuda
