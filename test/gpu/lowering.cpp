#include "test/gpu/lowering.h"

#include "passes/lower/code/LlvmDialect.h"
#include "passes/lower/code/MathExpansion.h"
#include "passes/lower/cuda/GpuModule.h"

#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/Support/TargetSelect.h"

#include <cstring>

using namespace mlir;

namespace dtc::test {
namespace {

/// Replaces GPU operations in one function by calls.
class ThreadLowering {
public:
  ThreadLowering(ModuleOp module, gpu::GPUFuncOp kernel)
      : module(module), kernel(kernel), builder(module.getContext()) {
    pointer = LLVM::LLVMPointerType::get(module.getContext());
    integer = builder.getI64Type();
  }

  void run() {
    kernel.walk([&](Operation *op) { lower(op); });
    makeFunction();
  }

private:
  void lower(Operation *op);
  void makeFunction();
  Value call(StringRef name, Type result, ValueRange operands);
  Value constant(int64_t value) {
    return arith::ConstantOp::create(builder, kernel.getLoc(), builder.getI64IntegerAttr(value));
  }
  Value toIndex(Value number) {
    return arith::IndexCastUIOp::create(builder, kernel.getLoc(), builder.getIndexType(), number);
  }
  Value toNumber(Value index) { return arith::IndexCastUIOp::create(builder, kernel.getLoc(), integer, index); }
  Value shared(Value memory, Value index, bool isWrite);
  Value access(Value address, Type type, uint64_t alignment, bool isWrite);
  Value shuffle(gpu::ShuffleOp op);
  Value addressOfShared(Value memory);
  Value wordAt(Location loc, int32_t number);
  Value fourWords(Location loc, Type type, int32_t first);
  Value intrinsic(LLVM::CallIntrinsicOp op);
  static int64_t bytesOf(Type type);

  ModuleOp module;
  gpu::GPUFuncOp kernel;
  OpBuilder builder;
  Type pointer, integer;
  Value words; // what a thread and its warp exchange
};

} // namespace

int64_t ThreadLowering::bytesOf(Type type) {
  int64_t elements = isa<VectorType>(type) ? cast<VectorType>(type).getNumElements() : 1;
  return elements * getElementTypeOrSelf(type).getIntOrFloatBitWidth() / 8;
}

Value ThreadLowering::call(StringRef name, Type result, ValueRange operands) {
  Type type = result ? result : LLVM::LLVMVoidType::get(builder.getContext());
  auto signature = LLVM::LLVMFunctionType::get(type, llvm::to_vector(operands.getTypes()));
  if (!module.lookupSymbol(name)) {
    OpBuilder atStart = OpBuilder::atBlockBegin(module.getBody());
    LLVM::LLVMFuncOp::create(atStart, kernel.getLoc(), name, signature);
  }
  auto made = LLVM::CallOp::create(builder, kernel.getLoc(), signature, name, operands);
  return result ? made.getResult() : Value();
}

Value ThreadLowering::shared(Value memory, Value index, bool isWrite) {
  auto type = cast<MemRefType>(memory.getType());
  unsigned number = cast<BlockArgument>(memory).getArgNumber();
  return call("gpu_shared", pointer,
              {constant(number), constant(type.getNumElements()), constant(bytesOf(type.getElementType())),
               toNumber(index), constant(isWrite)});
}

Value ThreadLowering::addressOfShared(Value memory) {
  auto type = cast<MemRefType>(memory.getType());
  unsigned number = cast<BlockArgument>(memory).getArgNumber();
  return toIndex(call("gpu_address_of_shared", integer,
                      {constant(number), constant(type.getNumElements()), constant(bytesOf(type.getElementType()))}));
}

/// Where the bytes are.
Value ThreadLowering::access(Value address, Type type, uint64_t alignment, bool isWrite) {
  return call("gpu_access", pointer,
              {address, constant(bytesOf(type)), constant(int64_t(alignment)), constant(isWrite)});
}

Value ThreadLowering::shuffle(gpu::ShuffleOp op) {
  Location loc = op.getLoc();
  Type type = op.getValue().getType(), bits = builder.getIntegerType(type.getIntOrFloatBitWidth());
  Value value = op.getValue();
  if (type != bits)
    value = arith::BitcastOp::create(builder, loc, bits, value);
  if (bits != integer)
    value = arith::ExtUIOp::create(builder, loc, integer, value);
  value = call("gpu_shuffle", integer, {value, op.getOffset()});
  if (bits != integer)
    value = arith::TruncIOp::create(builder, loc, bits, value);
  return type == bits ? value : arith::BitcastOp::create(builder, loc, type, value).getResult();
}

/// Ten words of the thread's own, which all its calls share.
Value ThreadLowering::wordAt(Location loc, int32_t number) {
  Type word = builder.getI32Type();
  if (!words) {
    OpBuilder atStart = OpBuilder::atBlockBegin(&kernel.getBody().front());
    Value count = LLVM::ConstantOp::create(atStart, loc, atStart.getI64IntegerAttr(10));
    words = LLVM::AllocaOp::create(atStart, loc, pointer, word, count);
  }
  return LLVM::GEPOp::create(builder, loc, pointer, word, words, ArrayRef<LLVM::GEPArg>{number});
}

/// The words from `first` on as a result of four.
Value ThreadLowering::fourWords(Location loc, Type type, int32_t first) {
  Value result = LLVM::PoisonOp::create(builder, loc, type);
  Type word = cast<LLVM::LLVMStructType>(type).getBody().front();
  for (int32_t i = 0; i < 4; ++i) {
    Value each = LLVM::LoadOp::create(builder, loc, word, wordAt(loc, first + i));
    result = LLVM::InsertValueOp::create(builder, loc, result, each, i);
  }
  return result;
}

/// The call that replaces an intrinsic of no vendor (GpuModule.h), and its result if it has one.
Value ThreadLowering::intrinsic(LLVM::CallIntrinsicOp op) {
  Location loc = op.getLoc();
  StringRef name = op.getIntrin();
  if (name == gpuMmaOfBf16 || name == gpuMmaOfF16) {
    for (auto [i, operand] : llvm::enumerate(op.getArgs()))
      LLVM::StoreOp::create(builder, loc, operand, wordAt(loc, int32_t(i)));
    call("gpu_mma", {}, {wordAt(loc, 0), constant(name == gpuMmaOfBf16)});
    return fourWords(loc, op.getResult(0).getType(), 6);
  }
  if (name == gpuLoadMatrices || name == gpuLoadTransposedMatrices) {
    Value address = LLVM::PtrToIntOp::create(builder, loc, integer, op.getArgs().front());
    call("gpu_load_matrices", {}, {address, wordAt(loc, 0), constant(name == gpuLoadTransposedMatrices)});
    return fourWords(loc, op.getResult(0).getType(), 0);
  }
  if (name == gpuBeginCopy) {
    Value to = LLVM::PtrToIntOp::create(builder, loc, integer, op.getArgs()[0]);
    return call("gpu_begin_copy", {}, {to, op.getArgs()[1]});
  }
  if (name == gpuWaitForCopies)
    return call("gpu_wait_for_copies", {}, {});
  return call("gpu_power_of_two", builder.getF32Type(), op.getArgs());
}

void ThreadLowering::lower(Operation *op) {
  builder.setInsertionPoint(op);
  Location loc = op->getLoc();
  if (auto load = dyn_cast<LLVM::LoadOp>(op))
    return load.getAddrMutable().assign(access(load.getAddr(), load.getType(), load.getAlignment().value_or(1), false));
  if (auto store = dyn_cast<LLVM::StoreOp>(op))
    return store.getAddrMutable().assign(
        access(store.getAddr(), store.getValue().getType(), store.getAlignment().value_or(1), true));
  if (auto each = dyn_cast<LLVM::CallIntrinsicOp>(op)) {
    if (!each.getIntrin().starts_with("llvm.dtc."))
      return;
    if (Value result = intrinsic(each))
      each.getResult(0).replaceAllUsesWith(result);
  } else if (isa<gpu::ThreadIdOp>(op))
    op->replaceAllUsesWith(ValueRange(toIndex(call("gpu_thread", integer, {}))));
  else if (isa<gpu::BlockIdOp>(op))
    op->replaceAllUsesWith(ValueRange(toIndex(call("gpu_block", integer, {}))));
  else if (isa<gpu::BarrierOp>(op))
    call("gpu_barrier", {}, {});
  else if (auto each = dyn_cast<gpu::ShuffleOp>(op))
    each.getShuffleResult().replaceAllUsesWith(shuffle(each));
  else if (auto begin = dyn_cast<memref::ExtractAlignedPointerAsIndexOp>(op))
    begin.getResult().replaceAllUsesWith(addressOfShared(begin.getSource()));
  else if (auto load = dyn_cast<memref::LoadOp>(op))
    load.replaceAllUsesWith(
        LLVM::LoadOp::create(builder, loc, load.getType(), shared(load.getMemRef(), load.getIndices().front(), false))
            .getResult());
  else if (auto store = dyn_cast<memref::StoreOp>(op))
    LLVM::StoreOp::create(builder, loc, store.getValue(), shared(store.getMemRef(), store.getIndices().front(), true));
  else if (isa<gpu::ReturnOp>(op))
    LLVM::ReturnOp::create(builder, loc, ValueRange());
  else
    return;
  op->erase();
}

/// The kernel's body as a function of an array of arguments.
void ThreadLowering::makeFunction() {
  builder.setInsertionPointToEnd(module.getBody());
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(builder.getContext()), {pointer});
  auto function = LLVM::LLVMFuncOp::create(builder, kernel.getLoc(), kernel.getName(), type);
  function.getBody().takeBody(kernel.getBody());
  Block &entry = function.getBody().front();
  builder.setInsertionPointToStart(&entry);
  Value array = entry.insertArgument(0u, pointer, kernel.getLoc());
  size_t arguments = kernel.getFunctionType().getNumInputs();
  for (size_t i = 0; i < arguments; ++i) {
    BlockArgument argument = entry.getArgument(1 + i);
    Value slot = LLVM::GEPOp::create(builder, kernel.getLoc(), pointer, integer, array,
                                     ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(i)});
    argument.replaceAllUsesWith(LLVM::LoadOp::create(builder, kernel.getLoc(), argument.getType(), slot));
  }
  entry.eraseArguments(1, entry.getNumArguments() - 1);
  builder.setInsertionPointToEnd(module.getBody());
  LLVM::GlobalOp::create(builder, kernel.getLoc(), integer, /*isConstant=*/true, LLVM::Linkage::External,
                         (kernel.getName() + ArgumentsSuffix).str(), builder.getI64IntegerAttr(int64_t(arguments)));
}

static LogicalResult lowerToLlvm(ModuleOp module) {
  expandMath(module, /*hasAvx512=*/false);
  PassManager passes(module.getContext());
  arith::ArithExpandOpsPassOptions bf16;
  bf16.includeBf16 = true;
  passes.addPass(arith::createArithExpandOpsPass(bf16));
  buildLlvmDialectPipeline(passes);
  return passes.run(module);
}

/// Defines what threads call: each function calls the one at its place in the table of hooks.
static void callHooks(llvm::Module &code) {
  constexpr const char *names[] = {"gpu_thread",       "gpu_block",         "gpu_barrier",    "gpu_shuffle",
                                   "gpu_mma",          "gpu_load_matrices", "gpu_begin_copy", "gpu_wait_for_copies",
                                   "gpu_power_of_two", "gpu_access",        "gpu_shared",     "gpu_address_of_shared"};
  static_assert(sizeof(Hooks) == std::size(names) * sizeof(void *));
  auto *pointer = llvm::PointerType::getUnqual(code.getContext());
  auto *type = llvm::ArrayType::get(pointer, std::size(names));
  auto *table = new llvm::GlobalVariable(code, type, /*isConstant=*/false, llvm::GlobalValue::ExternalLinkage,
                                         llvm::Constant::getNullValue(type), HooksSymbol);
  for (auto [i, name] : llvm::enumerate(names)) {
    llvm::Function *function = code.getFunction(name);
    if (!function)
      continue; // none of the kernels calls it
    function->setLinkage(llvm::GlobalValue::InternalLinkage);
    llvm::IRBuilder<> builder(llvm::BasicBlock::Create(code.getContext(), "", function));
    llvm::Value *hook = builder.CreateLoad(pointer, builder.CreateConstGEP2_64(type, table, 0, i));
    SmallVector<llvm::Value *> arguments(llvm::make_pointer_range(function->args()));
    llvm::CallInst *result = builder.CreateCall(function->getFunctionType(), hook, arguments);
    function->getReturnType()->isVoidTy() ? builder.CreateRetVoid() : builder.CreateRet(result);
  }
}

/// Loads and stores of bf16 become integers where the code between treats them as such. Where a basic block passes a
/// vector of bf16 to another, LLVM 22 rounds each element once more, by a function that libraries may lack, unless the
/// processor has instructions for bf16.
static void moveBitsOfBf16(llvm::Module &code) {
  auto isBits = [](llvm::Type *type) { return type->getScalarType()->isIntegerTy(16); };
  for (llvm::Function &function : code)
    for (llvm::Instruction &instruction : llvm::make_early_inc_range(llvm::instructions(function))) {
      auto *conversion = dyn_cast<llvm::BitCastInst>(&instruction);
      if (!conversion)
        continue;
      llvm::Value *operand = conversion->getOperand(0);
      if (isBits(operand->getType()))
        conversion->replaceUsesWithIf(operand, [](llvm::Use &use) { return isa<llvm::StoreInst>(use.getUser()); });
      auto *load = dyn_cast<llvm::LoadInst>(operand);
      if (!load || !isBits(conversion->getType()))
        continue;
      llvm::IRBuilder<> builder(load);
      conversion->replaceAllUsesWith(
          builder.CreateAlignedLoad(conversion->getType(), load->getPointerOperand(), load->getAlign()));
      conversion->eraseFromParent();
    }
}

ThreadCode lowerToThreads(gpu::GPUModuleOp kernels) {
  auto module = kernels->getParentOfType<ModuleOp>();
  registerBuiltinDialectTranslation(*module.getContext());
  registerLLVMDialectTranslation(*module.getContext());
  for (gpu::GPUFuncOp kernel : llvm::make_early_inc_range(kernels.getOps<gpu::GPUFuncOp>()))
    ThreadLowering(module, kernel).run();
  kernels.erase();
  ThreadCode result;
  if (succeeded(lowerToLlvm(module)))
    result.code = translateModuleToLLVMIR(module, *result.context, "kernels");
  if (result.code) {
    callHooks(*result.code);
    moveBitsOfBf16(*result.code);
  }
  return result;
}

GpuCodeOfThisMachine::GpuCodeOfThisMachine(gpu::GPUModuleOp kernels, const Hooks &hooks) {
  ThreadCode threads = lowerToThreads(kernels);
  if (!threads.code) {
    error = "the kernels do not lower to this machine's code";
    return;
  }
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  auto made = llvm::orc::LLJITBuilder().create();
  if (!made) {
    error = llvm::toString(made.takeError());
    return;
  }
  jit = std::move(*made);
  threads.code->setDataLayout(jit->getDataLayout());
  llvm::Error failed =
      jit->addIRModule(llvm::orc::ThreadSafeModule(std::move(threads.code), std::move(threads.context)));
  if (failed) {
    error = llvm::toString(std::move(failed));
    return;
  }
  auto table = jit->lookup(HooksSymbol);
  if (table)
    std::memcpy(table->toPtr<void *>(), &hooks, sizeof hooks);
  else
    error = llvm::toString(table.takeError());
}

ThreadFunction GpuCodeOfThisMachine::find(const std::string &name) const {
  auto found = jit->lookup(name);
  if (!found) {
    llvm::consumeError(found.takeError());
    return nullptr;
  }
  return found->toPtr<ThreadFunction>();
}

} // namespace dtc::test
