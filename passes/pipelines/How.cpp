// The phase "how", as prose.
#include "passes/pipelines/How.h"
#include "mlir/Transforms/Passes.h"
#include "passes/lower/Passes.h"

using namespace mlir;

void dtc::buildHowPipeline(OpPassManager &manager) {
  // What is placed needs no name any more: equal layers become equal.
  manager.addNestedPass<func::FuncOp>(createDropTags());
  // Slices of one tensor whose gradients are added up again are one concatenation.
  manager.addPass(createCanonicalizerPass());
  // Cheap values are computed again rather than kept from the forward to the backward pass.
  manager.addNestedPass<func::FuncOp>(createRecomputeCheap());
  // Elementwise work and reductions become kernels; everything else is a library call, a view or a collective.
  manager.addPass(createFuseKernels());
  // What cannot stay where it lies is copied.
  manager.addNestedPass<func::FuncOp>(createExplicitCopies());
  manager.addPass(createCopyConflictingResults());
}

void dtc::registerHow() {
  registerLowerPasses();
  PassPipelineRegistration<>("dt-how", "the phase \"how\": kernels, library calls, views and copies", buildHowPipeline);
}
