// The conversions shared by processors' kernels and the tests of GPUs' kernels.
#include "passes/lower/code/LlvmDialect.h"

#include "mlir/Conversion/Passes.h"

using namespace mlir;

void dtc::buildLlvmDialectPipeline(OpPassManager &manager) {
  manager.addPass(createSCFToControlFlowPass());
  manager.addPass(createConvertVectorToLLVMPass());
  manager.addPass(createConvertMathToLLVMPass());
  manager.addPass(createArithToLLVMConversionPass());
  manager.addPass(createConvertControlFlowToLLVMPass());
  manager.addPass(createReconcileUnrealizedCastsPass());
}
