// The phase "how", as prose.
#include "passes/pipelines/How.h"
#include "passes/keep/Passes.h"
#include "passes/lower/Passes.h"

using namespace mlir;

void dtc::buildHowPipeline(OpPassManager &manager) {
  buildHowPasses(manager);
  manager.addPass(createVerifyHow());
}

void dtc::buildHowPasses(OpPassManager &manager) {
  // A formula has one kernel for each shape it is applied to.
  manager.addPass(createOutlineFormulas());
  // Before operations that read rows are put into kernels.
  manager.addNestedPass<func::FuncOp>(createPadRows());
  // What a product's library does before it stores the result needs no kernel.
  manager.addNestedPass<func::FuncOp>(createFuseEpilogues());
  // Elementwise work and reductions become kernels; everything else is a library call, a view or a collective.
  manager.addPass(createFuseKernels());
  // Values that cannot stay where they are get copied.
  manager.addNestedPass<func::FuncOp>(createExplicitCopies());
  // Copies and epilogues belong to what they were made for.
  manager.addNestedPass<func::FuncOp>(createCompleteMarks());
}

void dtc::registerHow() {
  registerLowerPasses();
  PassPipelineRegistration<>("dt-how", "the phase \"how\": kernels, library calls, views and copies", buildHowPipeline);
}
