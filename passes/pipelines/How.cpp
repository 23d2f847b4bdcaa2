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
  // Before what reads rows is put into kernels.
  manager.addNestedPass<func::FuncOp>(createPadRows());
  // What a product's library does on the way out needs no kernel.
  manager.addNestedPass<func::FuncOp>(createFuseEpilogues());
  // Elementwise work and reductions become kernels; everything else is a library call, a view or a collective.
  manager.addPass(createFuseKernels());
  // What cannot stay where it lies is copied.
  manager.addNestedPass<func::FuncOp>(createExplicitCopies());
  // Copies and epilogues belong to what they were made for.
  manager.addNestedPass<func::FuncOp>(createCompleteMarks());
}

void dtc::registerHow() {
  registerLowerPasses();
  PassPipelineRegistration<>("dt-how", "the phase \"how\": kernels, library calls, views and copies", buildHowPipeline);
}
