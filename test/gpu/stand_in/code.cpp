// The code of GPU kernels as the stand-in runs it, instead of PTX and cubins: linked into a compiler, this replaces
// passes/lower/cuda/GpuSections.cpp.
#include "passes/lower/code/Optimize.h"
#include "passes/lower/cpu/Linker.h"
#include "passes/lower/cuda/GpuSections.h"
#include "test/gpu/lowering.h"

#include "llvm/IR/LegacyPassManager.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

using namespace mlir;
using namespace dtc;

/// Fused multiply-adds and conversions of f16 are instructions: the object needs no library.
static std::unique_ptr<llvm::TargetMachine> makeMachine(std::string &error) {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  llvm::Triple triple("x86_64-unknown-linux-gnu");
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return nullptr;
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(
      triple, "x86-64-v3", "", llvm::TargetOptions(), llvm::Reloc::PIC_, std::nullopt, llvm::CodeGenOptLevel::Default));
}

static std::string makeSharedObject(llvm::Module &code, std::string &error) {
  std::unique_ptr<llvm::TargetMachine> machine = makeMachine(error);
  if (!machine)
    return "";
  code.setTargetTriple(machine->getTargetTriple());
  code.setDataLayout(machine->createDataLayout());
  for (llvm::Function &function : code)
    if (!function.isDeclaration())
      function.addFnAttr("target-cpu", "x86-64-v3");
  optimizeKernels(code, *machine);
  SmallVector<SmallVector<char>> objects(1);
  llvm::raw_svector_ostream stream(objects.front());
  llvm::legacy::PassManager passes;
  if (machine->addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::ObjectFile)) {
    error = "no object code can be written";
    return "";
  }
  passes.run(code);
  FailureOr<std::string> linked = linkSharedObject(objects, error);
  return succeeded(linked) ? *linked : "";
}

FailureOr<std::future<TargetCode>> dtc::startMakingSections(gpu::GPUModuleOp module,
                                                            ArrayRef<std::string> architectures) {
  test::ThreadCode threads = test::lowerToThreads(module);
  if (!threads.code)
    return failure();
  return std::async(std::launch::async, [architecture = architectures.front(), threads = std::move(threads)]() mutable {
    TargetCode result;
    std::string code = makeSharedObject(*threads.code, result.error);
    result.sections.push_back({"cubin." + architecture, std::move(code)});
    return result;
  });
}
