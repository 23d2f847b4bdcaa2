// The phase "what", as prose.
#include "passes/pipelines/What.h"
#include "dialect/IR/Ops.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/differentiate/Passes.h"
#include "passes/pipelines/Canonicalizer.h"

using namespace mlir;
using namespace dtc;

static BuildUpdateOptions updateOptions(const WhatOptions &options) {
  BuildUpdateOptions update;
  update.optimizer = options.optimizer;
  llvm::append_range(update.settings, options.settings);
  update.clipNorm = options.clipNorm;
  update.asynchronous = options.asynchronous;
  update.earlyUpdate = options.earlyUpdate;
  return update;
}

/// The parts of a training step.
static void buildStep(OpPassManager &manager, const WhatOptions &options, bool isNarrow) {
  bool accumulates = options.accumulation > 1;
  // A step computes gradients of each micro-batch, ...
  // Gradients in f16 would vanish: they are scaled.
  bool isScaled = options.compute == "f16" || options.gradients == "f16";
  manager.addPass(createDifferentiate({isScaled, options.asynchronous}));
  if (isNarrow)
    manager.addPass(createNarrowGradients({options.gradients, accumulates}));
  if (accumulates)
    manager.addPass(createBuildAccumulation());
  // ... reduces them once, and updates the parameters.
  manager.addPass(createBuildReduction({options.asynchronous, options.earlyUpdate, options.clipNorm}));
  if (isNarrow && accumulates)
    manager.addPass(createNarrowReduction({options.gradients}));
  manager.addPass(createBuildUpdate(updateOptions(options)));
  // Evaluation is the loss without dropout; it consumes @loss.
  manager.addPass(createBuildEvaluation());
}

/// What runs to generate, when nothing is trained.
static void buildGeneration(OpPassManager &manager, const WhatOptions &options, bool isNarrow) {
  if (isNarrow)
    manager.addPass(createStoreNarrow({options.compute}));
  manager.addPass(createBuildGeneration());
}

void dtc::buildWhatPipeline(OpPassManager &manager, const WhatOptions &options) {
  // Conversions have gradients, so types are chosen first.
  bool isNarrow = options.compute != "f32" || options.gradients != "f32";
  if (isNarrow) {
    ChoosePrecisionOptions precision;
    precision.compute = options.compute;
    manager.addPass(createChoosePrecision(precision));
  }
  options.generates ? buildGeneration(manager, options, isNarrow) : buildStep(manager, options, isNarrow);

  // Gradients have been taken of whole composites, so these may be decomposed now.
  manager.addPass(createDecompose());
  // No common subexpressions are eliminated from here on: what the backward pass recomputes from a saved value is
  // recomputed so that the intermediate need not be saved.
  manager.addNestedPass<mlir::func::FuncOp>(createCanonicalizer());
  manager.addNestedPass<dt::FormulaOp>(createCanonicalizer());
  manager.addPass(createVerifyWhat());
}

void dtc::registerWhat() {
  registerDifferentiatePasses();
  PassPipelineRegistration<WhatOptions>("dt-what", "the phase \"what\": one training step from a model's loss",
                                        buildWhatPipeline);
}
