// The phase "when", as prose.
#include "passes/pipelines/When.h"
#include "passes/schedule/Passes.h"
#include "passes/schedule/buckets/BucketCollectives.h"
#include "passes/schedule/order/OrderCommands.h"

using namespace mlir;
using namespace dtc;

void dtc::buildWhenPipeline(OpPassManager &manager, const WhenOptions &options) {
  buildWhenPasses(manager, options, /*buckets=*/{}, /*order=*/{});
  buildWhenVerifier(manager, options);
}

void dtc::buildListsPipeline(OpPassManager &manager, const WhenOptions &options, const BucketOptions &buckets) {
  // Work that is done in parts takes turns.
  manager.addNestedPass<func::FuncOp>(createInterleaveParts());
  // What waits in the host's memory is copied there and back during the computation, ...
  manager.addNestedPass<func::FuncOp>(createSplitOffloads());
  // ... parameters that are stored in pieces are gathered a little ahead of time, ...
  GatherAheadOptions gather;
  gather.ahead = options.gatherAhead;
  manager.addNestedPass<func::FuncOp>(createGatherAhead(gather));
  // ... and all collectives run during the computation, from their start to their wait.
  manager.addNestedPass<func::FuncOp>(createSplitCollectives());
  // What cannot be computed where it has to be is copied there.
  manager.addPass(createCopyConflictingResults());
  // What stages of a pipeline hand on is sent as soon as it is there, ...
  manager.addPass(createInsertTransfers());
  // ... what an update may have to undo is kept, ...
  if (options.overlapSteps)
    manager.addPass(createKeepState());
  // ... and timetables say which function runs when, and in which places of memory.
  BuildTimetablesOptions timetables;
  timetables.accumulation = options.accumulation;
  timetables.kind = options.timetable;
  timetables.overlapSteps = options.overlapSteps;
  timetables.warnsOfBubble = options.warnsOfBubble;
  manager.addPass(createBuildTimetables(timetables));
  // Starts that would cost more than what they move go together.
  if (!buckets.rules.empty() || buckets.size.kind != abi::BucketSize::Kind::None)
    manager.addPass(createBucketCollectives(buckets.rules, buckets.size, buckets.costs, buckets.chosen));
}

void dtc::buildWhenPasses(OpPassManager &manager, const WhenOptions &options, const BucketOptions &buckets,
                          const std::vector<OrderRule> &order) {
  buildListsPipeline(manager, options, buckets);
  // What somebody chose to run earlier or later moves there.
  if (!order.empty())
    manager.addPass(createOrderCommands(order));
  // Then every tensor gets its place in memory, ...
  PlanMemoryOptions memory;
  memory.limit = options.memoryLimit;
  manager.addPass(createPlanMemory(memory));
}

/// ... and it is proved that no two get in each other's way, and that each micro-batch has each pass in its turn.
void dtc::buildWhenVerifier(OpPassManager &manager, const WhenOptions &options) {
  VerifyWhenOptions verify;
  verify.accumulation = options.accumulation;
  manager.addPass(createVerifyWhen(verify));
}

void dtc::registerWhen() {
  registerSchedulePasses();
  PassPipelineRegistration<WhenOptions>(
      "dt-when", "the phase \"when\": collectives started and waited for; memory",
      [](OpPassManager &manager, const WhenOptions &options) { buildWhenPipeline(manager, options); });
}
