// Kernels to native code: emission, sharing of equal functions, MLIR to LLVM, optimisation, object code, linking.
#include "passes/lower/cpu/NativeCode.h"
#include "passes/lower/code/LlvmDialect.h"
#include "passes/lower/code/MathExpansion.h"
#include "passes/lower/code/Optimize.h"
#include "passes/lower/cpu/KernelEmitter.h"
#include "passes/lower/cpu/Linker.h"
#include "passes/lower/kernels/EqualFunctions.h"

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
  SmallVector<std::pair<std::string, std::string>> aliases; ///< a name, and that of the function it shares
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

/// Emits every kernel; a function equal to an earlier one becomes another name for it.
static FailureOr<EmittedKernels> emitAll(ArrayRef<dt::KernelOp> kernels, ModuleOp module, unsigned lanes) {
  EmittedKernels result;
  EqualFunctions equal;
  for (dt::KernelOp kernel : kernels) {
    FailureOr<KernelPlan> plan = planKernel(kernel);
    if (failed(plan))
      return failure();
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
    function.addFnAttr("reciprocal-estimates", "none"); // they turn 1 / 0 into NaN
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

// Parts

namespace {

/// Roughly half of the kernels: both halves are compiled in parallel.
struct Part {
  OwningOpRef<ModuleOp> functions;
  int64_t size = 0; ///< operations of the functions: compile time follows it
  SmallVector<std::pair<std::string, std::string>> aliases;
  SmallVector<char> object;
  std::string error;
};

} // namespace

/// From scf, arith, math and vector to the llvm dialect and LLVM's own form.
static std::unique_ptr<llvm::Module> translate(ModuleOp functions, const CodeTarget &target,
                                               llvm::LLVMContext &context) {
  expandMath(functions, target.vectorBits == 512);
  PassManager passes(functions.getContext());
  buildLlvmDialectPipeline(passes);
  if (failed(passes.run(functions)))
    return nullptr;
  return translateModuleToLLVMIR(functions, context, "kernels");
}

static void compilePart(Part &part, const CodeTarget &target) {
  // The thread that makes the command list meanwhile has priority: a model of many layers waits for it.
  [[maybe_unused]] int previous = nice(5);
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> code = translate(*part.functions, target, context);
  if (!code) {
    part.error = "they do not translate to LLVM IR";
    return;
  }
  for (auto &[name, shared] : part.aliases)
    llvm::GlobalAlias::create(name, code->getFunction(shared));
  std::unique_ptr<llvm::TargetMachine> machine = makeMachine(target, part.error);
  if (!machine)
    return;
  code->setTargetTriple(llvm::Triple(triple));
  code->setDataLayout(machine->createDataLayout());
  setAttributes(*code, target);
  optimizeKernels(*code, *machine);
  FailureOr<SmallVector<char>> object = makeObject(*code, *machine);
  if (succeeded(object))
    part.object = std::move(*object);
  else
    part.error = "no object code can be written for " + target.cpu;
}

static TargetCode generate(std::array<Part, 2> parts, const CodeTarget &target, std::launch policy) {
  std::future<void> other = std::async(policy, [&] { compilePart(parts[1], target); });
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

/// Each function, the largest first, goes to the part that is smaller at that point.
static std::array<Part, 2> split(EmittedKernels kernels) {
  SmallVector<int64_t> sizes;
  for (LLVM::LLVMFuncOp function : kernels.functions)
    function.walk([&, size = &sizes.emplace_back()](Operation *) { ++*size; });
  SmallVector<size_t> order = llvm::to_vector(llvm::seq(sizes.size()));
  llvm::sort(order, [&](size_t a, size_t b) { return sizes[a] != sizes[b] ? sizes[a] > sizes[b] : a < b; });
  std::array<Part, 2> parts;
  for (Part &part : parts)
    part.functions = ModuleOp::create(kernels.functions.front().getLoc());
  llvm::StringMap<Part *> partOf;
  for (size_t i : order) {
    LLVM::LLVMFuncOp function = kernels.functions[i];
    Part &part = parts[0].size <= parts[1].size ? parts[0] : parts[1];
    function->moveBefore(part.functions->getBody(), part.functions->getBody()->end());
    part.size += sizes[i];
    partOf[function.getName()] = &part;
  }
  for (const auto &alias : kernels.aliases)
    partOf.at(alias.second)->aliases.push_back(alias);
  return parts;
}

/// Loads what threads must not load concurrently.
static void loadDialects(MLIRContext &context) {
  context.loadDialect<arith::ArithDialect, cf::ControlFlowDialect, LLVM::LLVMDialect, math::MathDialect,
                      scf::SCFDialect, vector::VectorDialect>();
  registerBuiltinDialectTranslation(context);
  registerLLVMDialectTranslation(context);
  PassManager passes(&context);
  buildLlvmDialectPipeline(passes);
  DialectRegistry ofPasses;
  passes.getDependentDialects(ofPasses);
  context.appendDialectRegistry(ofPasses);
  for (StringRef name : ofPasses.getDialectNames())
    context.getOrLoadDialect(name);
}

FailureOr<std::future<TargetCode>> dtc::startCompilingKernels(ArrayRef<dt::KernelOp> kernels,
                                                              const CodeTarget &target) {
  if (kernels.empty())
    return std::async(std::launch::deferred, [] { return TargetCode(); });
  dt::KernelOp first = kernels.front();
  loadDialects(*first->getContext());
  OwningOpRef<ModuleOp> module = ModuleOp::create(first.getLoc());
  FailureOr<EmittedKernels> emitted = emitAll(kernels, *module, target.lanes());
  if (failed(emitted))
    return failure();
  // A context for one thread has no locks.
  std::launch policy = first->getContext()->isMultithreadingEnabled() ? std::launch::async : std::launch::deferred;
  return std::async(policy, [target, policy, parts = split(std::move(*emitted))]() mutable {
    return generate(std::move(parts), target, policy);
  });
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
