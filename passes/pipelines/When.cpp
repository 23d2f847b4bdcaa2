// The phase "when", as prose.
#include "passes/pipelines/When.h"
#include "passes/lower/Passes.h"
#include "passes/schedule/Passes.h"

using namespace mlir;

void dtc::buildWhenPipeline(OpPassManager &manager) {
  // Collectives run beside the computation from their start to their wait.
  manager.addNestedPass<func::FuncOp>(createSplitCollectives());
  // What cannot be computed where it must lie is copied there.
  manager.addPass(createCopyConflictingResults());
}

void dtc::registerWhen() {
  registerSchedulePasses();
  PassPipelineRegistration<>("dt-when", "the phase \"when\": collectives started and waited for", buildWhenPipeline);
}
