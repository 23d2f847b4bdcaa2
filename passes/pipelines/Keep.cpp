// The phase "keep", as prose.
#include "passes/pipelines/Keep.h"
#include "passes/keep/Passes.h"

using namespace mlir;
using namespace dtc;

void dtc::buildKeepPipeline(OpPassManager &manager, const KeepOptions &options, const CrossingCosts &costs) {
  buildKeepPasses(manager, options, costs);
  manager.addPass(createVerifyKeep());
}

void dtc::buildBeforeRecompute(OpPassManager &manager, const KeepOptions &options) {
  // Operations added with collectives belong to a layer and to a part of the step, too: passes need to know these.
  manager.addNestedPass<func::FuncOp>(createCompleteMarks());
  // Gradients are reduced in the backward pass of the last micro-batch.
  MergeReductionOptions merge;
  merge.accumulation = options.accumulation;
  if (!options.generates)
    manager.addPass(createMergeReduction(merge));
  // What is placed needs no name any more: without names, equal layers become identical.
  manager.addNestedPass<func::FuncOp>(createDropTags());
  // If rows are added to a gradient last, everything else in it is reduced early, and the rows are gathered.
  GatherRowsOptions rows;
  rows.rows.assign(options.rows.begin(), options.rows.end());
  if (!options.generates)
    manager.addPass(createGatherRows(rows));
  // A large gradient is computed by rows, so that some of it moves while the rest is computed.
  SplitGradientsOptions gradients;
  gradients.rules.assign(options.splitGradients.begin(), options.splitGradients.end());
  if (!options.splitGradients.empty() && !options.generates)
    manager.addNestedPass<func::FuncOp>(createSplitGradients(gradients));
  // What each micro-batch would make from a parameter is made once, when the parameter changes.
  if (options.copies && !options.generates)
    manager.addPass(createKeepCopies());
}

void dtc::buildKeepPasses(OpPassManager &manager, const KeepOptions &options, const CrossingCosts &costs) {
  buildBeforeRecompute(manager, options);
  // In some layers little is kept from the forward to the backward pass: the rest is recomputed.
  RecomputeLayersOptions layers;
  layers.rules.assign(options.recompute.begin(), options.recompute.end());
  manager.addNestedPass<func::FuncOp>(createRecomputeLayers(layers));
  // In others, what is cheap to recompute is recomputed.
  manager.addNestedPass<func::FuncOp>(createRecomputeCheap({layers.rules}));
  // In yet others, what is kept waits in the host's memory.
  manager.addPass(createOffloadLayers({layers.rules}));
  // Now that all readers are known, readers of a gathered parameter that are near each other share a gather.
  ShareGathersOptions share;
  share.ahead = options.gatherAhead;
  share.gathers.assign(options.gathers.begin(), options.gathers.end());
  manager.addNestedPass<func::FuncOp>(createShareGathers(share));
  // Then the model is cut into stages, and each function says what it is for.
  manager.addPass(createCutByCosts(costs));
  // Where layers wait for other ranks, one part of the batch computes while another waits.
  SplitProductsOptions split;
  split.rules.assign(options.split.begin(), options.split.end());
  if (!options.split.empty())
    manager.addNestedPass<func::FuncOp>(createSplitProducts(split));
  // What another stage waits for is made before what nobody waits for.
  manager.addNestedPass<func::FuncOp>(createSendFirst());
}

void dtc::registerKeep() {
  registerKeepPasses();
  PassPipelineRegistration<KeepOptions>(
      "dt-keep", "the phase \"keep\": what is computed again instead of kept",
      [](OpPassManager &manager, const KeepOptions &options) { buildKeepPipeline(manager, options); });
}
