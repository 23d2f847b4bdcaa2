#include "test/gpu/stand_in/cpu_library.h"

#include "runtime/abi/library/attention.h"
#include "runtime/abi/library/gemm.h"
#include "runtime/kernels/cpu/kernels.h"
#include "runtime/kernels/cuda/library.h"
#include "test/gpu/stand_in/find.h"

#include <deque>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace dtc::test {
namespace {

/// A kernel, and its grid as computed from its scalars (runtime/abi/library).
struct CpuKernel {
  dtc_kernel_fn function;
  int64_t (*grid)(std::span<const int64_t> scalars);
};

template <class Scalars> CpuKernel cpuKernel() {
  return {kernels::find("dtc_" + std::string(abi::library::tableOf<Scalars>.name)),
          [](auto scalars) { return abi::library::load<Scalars>(scalars.data()).grid(); }};
}

CpuKernel findCpuKernel(std::string_view symbol) {
  using namespace abi::library;
  if (symbol == "dtc_cuda_gemm")
    return cpuKernel<GemmScalars>();
  if (symbol == "dtc_cuda_attention_forward")
    return cpuKernel<AttentionScalars>();
  if (symbol == "dtc_cuda_attention_backward")
    return cpuKernel<AttentionBackwardScalars>();
  return {nullptr, nullptr};
}

/// One launch; the stream reaches it once or, as part of a graph, repeatedly.
struct Call {
  CpuKernel kernel;
  std::vector<void *> buffers;
  std::vector<int64_t> scalars;

  static void run(void *argument) {
    const auto &call = *static_cast<const Call *>(argument);
    auto *reach = findInDriver<dtc_stand_in_reach_fn>("dtc_stand_in_reach");
    std::vector<void *> buffers;
    for (void *buffer : call.buffers)
      buffers.push_back(reach(reinterpret_cast<uintptr_t>(buffer), 1));
    call.kernel.function(buffers.data(), call.scalars.data(), 0, call.kernel.grid(call.scalars));
  }
};

class CpuLibrary final : public cuda::LibraryKernels {
public:
  uint64_t start(const cuda::Gpu &gpu, const abi::Manifest &manifest) override { return own->start(gpu, manifest); }
  cuda::LibraryAttempt findAttempt(std::string_view symbol) override { return own->findAttempt(symbol); }
  std::vector<std::string> takeNotes() override { return own->takeNotes(); }

  cuda::LibraryFunction find(const cuda::Gpu &, std::string_view symbol) override {
    CpuKernel kernel = findCpuKernel(symbol);
    if (!kernel.function)
      return nullptr;
    auto calls = std::make_shared<std::deque<Call>>(); // which live as long as the device that has the function
    return [kernel, calls](cuda::LibraryContext &context, std::span<void *const> buffers,
                           std::span<const int64_t> scalars) {
      calls->push_back({kernel, {buffers.begin(), buffers.end()}, {scalars.begin(), scalars.end()}});
      findInDriver<dtc_stand_in_enqueue_fn>("dtc_stand_in_enqueue")(context.stream, Call::run, &calls->back(), nullptr);
    };
  }

private:
  std::unique_ptr<cuda::LibraryKernels> own = cuda::makeLibraryKernels();
};

} // namespace

std::unique_ptr<cuda::LibraryKernels> makeCpuLibrary() { return std::make_unique<CpuLibrary>(); }

} // namespace dtc::test
