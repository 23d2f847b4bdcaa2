#include "runtime/kernels/cuda/library.h"

#include "runtime/kernels/cuda/attention.h"
#include "runtime/kernels/cuda/products.h"
#include "runtime/support/error.h"

#include <algorithm>
#include <utility>

namespace dtc::cuda {
namespace {

class Libraries final : public LibraryKernels {
public:
  explicit Libraries(ProductChoices choices) : choices(std::move(choices)) {}

  /// Without cuDNN the program's own code does all attention.
  uint64_t start(const Gpu &gpu, const abi::Manifest &manifest) override {
    if (std::none_of(manifest.kernels().begin(), manifest.kernels().end(),
                     [](const abi::Kernel &kernel) { return kernel.library() && Attention::isFor(kernel.symbol()); }))
      return 0;
    try {
      attention = std::make_unique<Attention>(gpu.architecture());
      return Attention::SmallWorkspace;
    } catch (const Error &error) {
      notes.push_back(std::string("attention runs in the program's own kernels: ") + error.what());
      return 0;
    }
  }

  LibraryFunction find(const Gpu &gpu, std::string_view symbol) override {
    if (symbol != "dtc_cuda_gemm" && !symbol.starts_with("dtc_cuda_product$"))
      return nullptr;
    choices.gpu = gpu.modelName();
    if (!products)
      products = makeProducts(choices, cublaslt::namesFor(gpu.driver.version()));
    return products;
  }

  LibraryAttempt findAttempt(std::string_view symbol) override {
    if (!attention || !Attention::isFor(symbol))
      return nullptr;
    return [this, symbol = std::string(symbol)](const LibraryContext &context, std::span<void *const> buffers,
                                                std::span<const int64_t> scalars) {
      return attention->tryLaunch(symbol, context, buffers, scalars, /*mayPrepare=*/!context.isCaptured);
    };
  }

  std::vector<std::string> takeNotes() override {
    std::vector<std::string> taken = std::exchange(notes, {});
    if (attention)
      for (std::string &each : attention->takeNotes())
        taken.push_back(std::move(each));
    return taken;
  }

private:
  ProductChoices choices;
  LibraryFunction products;             ///< loaded with the first kernel that needs it
  std::unique_ptr<Attention> attention; ///< null: the program's own code does it all
  std::vector<std::string> notes;
};

} // namespace

std::unique_ptr<LibraryKernels> makeLibraryKernels(ProductChoices choices) {
  return std::make_unique<Libraries>(std::move(choices));
}

} // namespace dtc::cuda
