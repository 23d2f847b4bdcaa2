// The text of the library, read into a module.
#include "passes/lower/cuda/library/GpuLibrary.h"
#include "passes/lower/cuda/GpuModule.h"
#include "passes/lower/cuda/library/GpuRotary.h"
#include "passes/lower/cuda/library/GpuScatter.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

using namespace mlir;

namespace dtc {

static constexpr llvm::StringLiteral libraryText =
#include "passes/lower/cuda/library/library.inc"
    ;

void addGpuLibrary(gpu::GPUModuleOp module) {
  loadGpuDialects(*module.getContext());
  OwningOpRef<ModuleOp> parsed = parseSourceString<ModuleOp>(libraryText, module.getContext(), "library.mlir");
  if (!parsed)
    llvm::report_fatal_error("library.mlir cannot be parsed");
  auto library = *parsed->getOps<gpu::GPUModuleOp>().begin();
  for (auto function : llvm::make_early_inc_range(library.getOps<gpu::GPUFuncOp>()))
    function->moveBefore(module.getBody(), module.getBody()->end());
  addGpuRotary(module);
  addGpuEpilogues(module);
  addGpuScatter(module);
}

} // namespace dtc
