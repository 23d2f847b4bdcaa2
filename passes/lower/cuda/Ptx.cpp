// GPU kernels to PTX.
#include "passes/lower/cuda/Ptx.h"
#include "passes/lower/code/MathExpansion.h"
#include "passes/lower/code/Optimize.h"
#include "passes/lower/cuda/GpuModule.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/GPU/GPUToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Transforms/Utils/Cloning.h"

#include <mutex>

using namespace mlir;
using namespace dtc;

static constexpr const char *triple = "nvptx64-nvidia-cuda";

/// Square roots are instructions, rounded correctly; the conversion to NVVM would call a library.
static void makeRootsIntrinsics(Operation *root) {
  root->walk([](math::SqrtOp op) {
    OpBuilder builder(op);
    auto call = LLVM::CallIntrinsicOp::create(builder, op.getLoc(), op.getType(), builder.getStringAttr("llvm.sqrt"),
                                              ValueRange(op.getOperand()));
    op.replaceAllUsesWith(call.getResult(0));
    op.erase();
  });
}

/// Replaces vendor-neutral calls that are one instruction.
static void renameIntrinsics(Operation *root) {
  constexpr std::pair<StringLiteral, StringLiteral> names[] = {
      {gpuPowerOfTwo, "llvm.nvvm.ex2.approx.ftz"},
      {gpuBeginCopy, "llvm.nvvm.cp.async.cg.shared.global.16"},
      {gpuWaitForCopies, "llvm.nvvm.cp.async.wait.all"},
      {gpuLoadMatrices, "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.b16"},
      {gpuLoadTransposedMatrices, "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.trans.b16"}};
  root->walk([&](LLVM::CallIntrinsicOp op) {
    if (op.getIntrin() == gpuBeginCopy) { // from global memory
      OpBuilder builder(op);
      Type global = LLVM::LLVMPointerType::get(op.getContext(), unsigned(NVVM::NVVMMemorySpace::Global));
      op.setOperand(1, LLVM::AddrSpaceCastOp::create(builder, op.getLoc(), global, op.getOperand(1)));
    }
    for (auto [ours, name] : names)
      if (op.getIntrin() == ours)
        op.setIntrin(name);
  });
}

/// Replaces what matrix units do by an intrinsic, whose f16 operands are vectors.
static void makeMmaIntrinsics(Operation *root) {
  root->walk([](LLVM::CallIntrinsicOp op) {
    bool isBf16 = op.getIntrin() == gpuMmaOfBf16;
    if (!isBf16 && op.getIntrin() != gpuMmaOfF16)
      return;
    OpBuilder builder(op);
    op.setIntrin(isBf16 ? "llvm.nvvm.mma.m16n8k16.row.col.bf16" : "llvm.nvvm.mma.m16n8k16.row.col.f32.f32");
    for (OpOperand &operand : op->getOpOperands())
      if (!isBf16 && operand.get().getType().isInteger(32))
        operand.set(
            LLVM::BitcastOp::create(builder, op.getLoc(), VectorType::get({2}, builder.getF16Type()), operand.get()));
  });
}

/// A quarter of the threads that a multiprocessor holds are enough for kernels whose threads each ask for many bytes at
/// a time. Without this, ptxas aims at more, and would rather spill a register than run one block less.
static void stateOccupancy(gpu::GPUModuleOp module) {
  constexpr int32_t leastThreads = 512;
  for (auto function : module.getOps<LLVM::LLVMFuncOp>())
    if (auto threads = function->getAttrOfType<DenseI32ArrayAttr>(NVVM::NVVMDialect::getMaxntidAttrName())) {
      auto stated = function->getAttrOfType<IntegerAttr>(blocksAtOnce);
      if (!stated)
        stated = OpBuilder(function).getI32IntegerAttr(std::max(1, leastThreads / threads[0]));
      function->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(), stated);
    }
}

FailureOr<GpuCode> dtc::lowerToNvvm(gpu::GPUModuleOp module) {
  MLIRContext *context = module.getContext();
  DialectRegistry conversions;
  arith::registerConvertArithToLLVMInterface(conversions);
  registerConvertMemRefToLLVMInterface(conversions);
  context->appendDialectRegistry(conversions);
  registerBuiltinDialectTranslation(*context);
  registerGPUDialectTranslation(*context);
  registerLLVMDialectTranslation(*context);
  registerNVVMDialectTranslation(*context);
  expandMath(module, /*hasAvx512=*/false);
  makeRootsIntrinsics(module);
  renameIntrinsics(module);
  makeMmaIntrinsics(module);
  auto whole = module->getParentOfType<ModuleOp>();
  PassManager passes(context);
  OpPassManager &kernels = passes.nest<gpu::GPUModuleOp>();
  kernels.addPass(createSCFToControlFlowPass());
  kernels.addPass(createConvertMathToLLVMPass()); // before the next, which would call a library
  kernels.addPass(createConvertGpuOpsToNVVMOps());
  kernels.addPass(createConvertVectorToLLVMPass());
  kernels.addPass(createArithToLLVMConversionPass());
  passes.addPass(createConvertControlFlowToLLVMPass());
  passes.addPass(createReconcileUnrealizedCastsPass());
  GpuCode result;
  if (failed(passes.run(whole)))
    return module.emitError("generated kernels do not lower to NVVM");
  stateOccupancy(module);
  result.code = translateModuleToLLVMIR(module, *result.context, "kernels");
  if (!result.code)
    return module.emitError("generated kernels do not lower to LLVM");
  return result;
}

static std::unique_ptr<llvm::TargetMachine> makeMachine(const std::string &architecture, std::string &error) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
  const llvm::Target *found = llvm::TargetRegistry::lookupTarget(llvm::Triple(triple), error);
  if (!found)
    return nullptr;
  return std::unique_ptr<llvm::TargetMachine>(found->createTargetMachine(llvm::Triple(triple), architecture, "",
                                                                         llvm::TargetOptions(), std::nullopt,
                                                                         std::nullopt, llvm::CodeGenOptLevel::Default));
}

std::string dtc::makePtx(const GpuCode &code, const std::string &architecture, std::string &error) {
  std::unique_ptr<llvm::TargetMachine> machine = makeMachine(architecture, error);
  if (!machine)
    return {};
  std::unique_ptr<llvm::Module> module = llvm::CloneModule(*code.code);
  module->setTargetTriple(llvm::Triple(triple));
  module->setDataLayout(machine->createDataLayout());
  optimizeKernels(*module, *machine);
  llvm::SmallString<0> text;
  llvm::raw_svector_ostream stream(text);
  llvm::legacy::PassManager passes;
  if (machine->addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::AssemblyFile)) {
    error = "no PTX can be written for " + architecture;
    return {};
  }
  passes.run(*module);
  return text.str().str();
}
