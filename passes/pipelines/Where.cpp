// The phase "where", as prose.
#include "passes/pipelines/Where.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/pipelines/Canonicalizer.h"
#include "passes/place/Passes.h"

using namespace mlir;
using namespace dtc;

void dtc::buildWherePipeline(OpPassManager &manager, const WhereOptions &options) {
  // A strategy places parameters, inputs and a few activations, ...
  AnnotateOptions annotate;
  annotate.mesh = options.mesh;
  annotate.strategy = options.strategy;
  annotate.strategyText = options.strategyText;
  annotate.entry = options.entry;
  manager.addPass(createAnnotate(annotate));
  // ... reshards go between storage and compute, ...
  manager.addNestedPass<func::FuncOp>(createInsertReshards());
  // ... and all other values' placements follow.
  manager.addPass(createPropagate());
  // Then each function is rewritten for one rank, and what it would reduce one number at a time is reduced together.
  manager.addPass(createPartition());
  manager.addNestedPass<func::FuncOp>(createStackReductions());
  manager.addPass(createVerifyWhere());
}

void dtc::registerWhere() {
  registerPlacePasses();
  PassPipelineRegistration<WhereOptions>("dt-where", "the phase \"where\": placements, local shapes and collectives",
                                         buildWherePipeline);
}
