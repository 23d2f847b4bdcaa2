// PTX of a module, and machine code where ptxas is found.
#include "passes/lower/cuda/GpuSections.h"
#include "passes/lower/cuda/Ptx.h"
#include "passes/lower/cuda/Ptxas.h"

using namespace mlir;
using namespace dtc;

/// LLVM's and ptxas's share of the work.
static TargetCode generate(const GpuCode &code, ArrayRef<std::string> architectures) {
  TargetCode result;
  std::optional<std::string> ptxas = findPtxas();
  for (const std::string &architecture : architectures) {
    std::string ptx = makePtx(code, architecture, result.error);
    if (!result.error.empty())
      return result;
    std::optional<Cubin> cubin = ptxas ? assemble(*ptxas, ptx, architecture, result.error) : std::nullopt;
    if (!result.error.empty())
      return result;
    result.sections.push_back({"ptx." + architecture, std::move(ptx)});
    if (cubin)
      result.sections.push_back({"cubin." + architecture, std::move(cubin->bytes)});
  }
  return result;
}

FailureOr<std::future<TargetCode>> dtc::startMakingSections(gpu::GPUModuleOp module,
                                                            ArrayRef<std::string> architectures) {
  FailureOr<GpuCode> code = lowerToNvvm(module);
  if (failed(code))
    return failure();
  return std::async(std::launch::async, [architectures = std::vector<std::string>(architectures),
                                         code = std::move(*code)] { return generate(code, architectures); });
}
