// LLVM's optimisation of generated kernels.
#include "passes/lower/code/Optimize.h"

#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/Passes/PassBuilder.h"

/// The lane that a constant mask selects, if it selects just one.
static std::optional<unsigned> singleLane(llvm::Value *value) {
  auto *mask = llvm::dyn_cast<llvm::Constant>(value);
  auto *type = llvm::dyn_cast<llvm::FixedVectorType>(value->getType());
  std::optional<unsigned> found;
  for (unsigned lane = 0; mask && type && lane < type->getNumElements(); ++lane) {
    llvm::Constant *element = mask->getAggregateElement(lane);
    if (!element || (!element->isOneValue() && !element->isNullValue()) || (found && element->isOneValue()))
      return std::nullopt;
    if (element->isOneValue())
      found = lane;
  }
  return found;
}

/// Stores one lane of a vector as a single element. LLVM 22 would do so itself for x86-64-v4, but where the vector was
/// truncated it stores the lane as it was before truncation: four bytes for a bf16, over the next row's first element.
static void storeSingleLanes(llvm::Function &function) {
  for (llvm::Instruction &instruction : llvm::make_early_inc_range(llvm::instructions(function))) {
    auto *store = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction);
    if (!store || store->getIntrinsicID() != llvm::Intrinsic::masked_store)
      continue;
    llvm::Value *vector = store->getArgOperand(0), *pointer = store->getArgOperand(1);
    std::optional<unsigned> lane = singleLane(store->getArgOperand(store->arg_size() - 1));
    if (!lane)
      continue;
    llvm::IRBuilder<> builder(store);
    llvm::Value *element = builder.CreateExtractElement(vector, *lane);
    llvm::Value *address = builder.CreateConstInBoundsGEP1_64(element->getType(), pointer, *lane);
    uint64_t bytes = function.getDataLayout().getTypeStoreSize(element->getType());
    llvm::Align alignment = llvm::commonAlignment(store->getParamAlign(1).valueOrOne(), *lane * bytes);
    builder.CreateAlignedStore(element, address, alignment);
    store->eraseFromParent();
  }
}

void dtc::optimizeKernels(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::PipelineTuningOptions tuning;
  tuning.LoopVectorization = tuning.SLPVectorization = tuning.LoopInterleaving = tuning.LoopUnrolling = false;
  llvm::PassBuilder builder(&machine, tuning);
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager graph;
  llvm::ModuleAnalysisManager modules;
  llvm::TargetLibraryInfoImpl library{module.getTargetTriple()};
  library.disableAllFunctions();
  functions.registerPass([&] { return llvm::TargetLibraryAnalysis(library); });
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(graph);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, graph, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2).run(module, modules);
  for (llvm::Function &function : module)
    storeSingleLanes(function);
}
