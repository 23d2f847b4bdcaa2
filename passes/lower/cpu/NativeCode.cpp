// Kernels to native code: emission, sharing of equal functions, MLIR to LLVM, optimisation, object code, linking.
#include "passes/lower/cpu/NativeCode.h"
#include "passes/lower/EqualFunctions.h"
#include "passes/lower/LlvmDialect.h"
#include "passes/lower/MathExpansion.h"
#include "passes/lower/Optimize.h"
#include "passes/lower/cpu/KernelEmitter.h"
#include "passes/lower/cpu/Linker.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/GlobalAlias.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"

#include <array>
#include <mutex>
#include <unistd.h>

using namespace mlir;
using namespace dtc;

namespace {

constexpr const char *triple = "x86_64-unknown-linux-gnu";

/// What x86-64-v3 adds to the baseline, and v4 to v3, as LLVM names it: the levels of the x86-64 psABI.
constexpr const char *featuresOfV3[] = {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"};
constexpr const char *featuresOfV4[] = {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"};

/// Functions in emission order; equal ones share code under several names.
struct EmittedKernels {
  SmallVector<LLVM::LLVMFuncOp> functions;
  SmallVector<std::pair<std::string, std::string>> aliases; ///< name, and the function's that it shares
};

} // namespace

FailureOr<CodeTarget> dtc::resolveTarget(StringRef name, std::string &why) {
  CodeTarget target;
  bool has512 = name == "x86-64-v4";
  if (name == "native") {
    target.tune = llvm::sys::getHostCPUName().str();
    llvm::StringMap<bool> host = llvm::sys::getHostCPUFeatures();
    for (const char *feature : featuresOfV3)
      if (!host.lookup(feature)) {
        why = "this machine's processor lacks " + std::string(feature) + "; x86-64-v3 is the least that is supported";
        return failure();
      }
    has512 = llvm::all_of(featuresOfV4, [&](const char *feature) { return host.lookup(feature); });
  } else if (name != "x86-64-v3" && name != "x86-64-v4") {
    why = "unknown target '" + name.str() + "'; use native, x86-64-v3, x86-64-v4 or cuda:sm_90";
    return failure();
  }
  target.features.assign(std::begin(featuresOfV3), std::end(featuresOfV3));
  if (has512)
    target.features.insert(target.features.end(), std::begin(featuresOfV4), std::end(featuresOfV4));
  target.cpu = has512 ? "x86-64-v4" : "x86-64-v3";
  target.vectorBits = has512 ? 512 : 256;
  return target;
}

// Emission

/// Emits every kernel; a function equal to an earlier one becomes another name of it.
static FailureOr<EmittedKernels> emitAll(ArrayRef<dt::KernelOp> kernels, ModuleOp module, unsigned lanes) {
  EmittedKernels result;
  EqualFunctions equal;
  for (dt::KernelOp kernel : kernels) {
    std::string why;
    FailureOr<KernelPlan> plan = planKernel(kernel, why);
    if (failed(plan))
      return kernel.emitOpError("cannot be compiled: ") << why;
    LLVM::LLVMFuncOp function = emitKernel(kernel, *plan, module, lanes);
    if (Operation *same = equal.findOrAdd(function)) {
      result.aliases.push_back({function.getName().str(), cast<LLVM::LLVMFuncOp>(same).getName().str()});
      function.erase();
      continue;
    }
    result.functions.push_back(function);
  }
  return result;
}

/// scf, arith, math and vector to the llvm dialect.
static LogicalResult lowerToLlvmDialect(ModuleOp module, const CodeTarget &target) {
  expandMath(module, target.vectorBits == 512);
  PassManager passes(module.getContext());
  buildLlvmDialectPipeline(passes);
  return passes.run(module);
}

// LLVM

static std::unique_ptr<llvm::TargetMachine> makeMachine(const CodeTarget &target, std::string &error) {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
  });
  const llvm::Target *found = llvm::TargetRegistry::lookupTarget(llvm::Triple(triple), error);
  if (!found)
    return nullptr;
  return std::unique_ptr<llvm::TargetMachine>(found->createTargetMachine(llvm::Triple(triple), target.cpu, "",
                                                                         llvm::TargetOptions(), llvm::Reloc::PIC_,
                                                                         std::nullopt, llvm::CodeGenOptLevel::Default));
}

static void setAttributes(llvm::Module &module, const CodeTarget &target) {
  for (llvm::Function &function : module) {
    if (function.isDeclaration())
      continue;
    function.addFnAttr("target-cpu", target.cpu);
    if (!target.tune.empty())
      function.addFnAttr("tune-cpu", target.tune);
    function.addFnAttr("prefer-vector-width", std::to_string(target.vectorBits));
    function.addFnAttr("reciprocal-estimates", "none"); // they make NaN of 1 / 0
    function.setDoesNotThrow();
  }
}

static FailureOr<SmallVector<char>> makeObject(llvm::Module &module, llvm::TargetMachine &machine) {
  SmallVector<char> object;
  llvm::raw_svector_ostream stream(object);
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::ObjectFile))
    return failure();
  passes.run(module);
  return object;
}

namespace {

/// Some of the kernels in LLVM's form, with a context of its own: parts are compiled side by side.
struct Part {
  std::unique_ptr<llvm::LLVMContext> context = std::make_unique<llvm::LLVMContext>();
  std::unique_ptr<llvm::Module> code;
  SmallVector<char> object;
  std::string error;
};

} // namespace

static void compilePart(Part &part, const CodeTarget &target) {
  // The thread that makes the command list meanwhile goes first: it is what a model of many layers waits for.
  [[maybe_unused]] int previous = nice(5);
  std::unique_ptr<llvm::TargetMachine> machine = makeMachine(target, part.error);
  if (!machine)
    return;
  part.code->setTargetTriple(llvm::Triple(triple));
  part.code->setDataLayout(machine->createDataLayout());
  setAttributes(*part.code, target);
  optimizeKernels(*part.code, *machine);
  FailureOr<SmallVector<char>> object = makeObject(*part.code, *machine);
  if (succeeded(object))
    part.object = std::move(*object);
  else
    part.error = "no object code can be written for " + target.cpu;
}

/// LLVM's share of the work, which knows nothing of the kernels' operations.
static TargetCode generate(std::array<Part, 2> &parts, const CodeTarget &target) {
  std::future<void> other = std::async(std::launch::async, [&] { compilePart(parts[1], target); });
  compilePart(parts[0], target);
  other.get();
  TargetCode code;
  code.error = parts[0].error + parts[1].error;
  if (!code.error.empty())
    return code;
  FailureOr<std::string> library = linkSharedObject({parts[0].object, parts[1].object}, code.error);
  if (succeeded(library))
    code.sections.push_back({"elf", std::move(*library)});
  return code;
}

/// Moves functions to `other` until both modules are about as large.
static void halve(ArrayRef<LLVM::LLVMFuncOp> functions, ModuleOp other) {
  int64_t ahead = 0; // by how many operations what stays is larger
  for (LLVM::LLVMFuncOp function : functions) {
    int64_t size = 0;
    function.walk([&](Operation *) { ++size; });
    if (ahead > 0)
      function->moveBefore(other.getBody(), other.getBody()->end());
    ahead += ahead > 0 ? -size : size;
  }
}

FailureOr<std::future<TargetCode>> dtc::startCompilingKernels(ArrayRef<dt::KernelOp> kernels,
                                                              const CodeTarget &target) {
  if (kernels.empty())
    return std::async(std::launch::deferred, [] { return TargetCode(); });
  MLIRContext *context = kernels.front()->getContext();
  Location loc = kernels.front()->getLoc();
  context->loadDialect<arith::ArithDialect, cf::ControlFlowDialect, LLVM::LLVMDialect, math::MathDialect,
                       scf::SCFDialect, vector::VectorDialect>();
  registerBuiltinDialectTranslation(*context);
  registerLLVMDialectTranslation(*context);
  OwningOpRef<ModuleOp> module = ModuleOp::create(loc);
  FailureOr<EmittedKernels> emitted = emitAll(kernels, *module, target.lanes());
  if (failed(emitted))
    return failure();
  if (failed(lowerToLlvmDialect(*module, target)))
    return emitError(loc, "generated kernels do not lower to LLVM");
  OwningOpRef<ModuleOp> other = ModuleOp::create(loc);
  halve(emitted->functions, *other);
  auto parts = std::make_unique<std::array<Part, 2>>();
  std::array<ModuleOp, 2> halves = {*module, *other};
  for (auto [part, half] : llvm::zip_equal(*parts, halves))
    if (!(part.code = translateModuleToLLVMIR(half, *part.context, "kernels")))
      return emitError(loc, "generated kernels do not translate to LLVM IR");
  for (auto &[name, shared] : emitted->aliases)
    for (Part &part : *parts)
      if (llvm::Function *function = part.code->getFunction(shared))
        llvm::GlobalAlias::create(name, function);
  return std::async(std::launch::async, [target, parts = std::move(parts)] { return generate(*parts, target); });
}

FailureOr<std::string> dtc::compileKernels(ArrayRef<dt::KernelOp> kernels, const CodeTarget &target) {
  FailureOr<std::future<TargetCode>> pending = startCompilingKernels(kernels, target);
  if (failed(pending))
    return failure();
  TargetCode code = pending->get();
  if (!code.error.empty())
    return emitError(kernels.front()->getLoc(), "generated kernels cannot be compiled: ") << code.error;
  return code.sections.empty() ? std::string() : std::move(code.sections.front().bytes);
}
