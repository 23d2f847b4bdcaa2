// The phase "when": in which order, and in which memory?
#pragma once

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassOptions.h"
#include "passes/schedule/buckets/ChooseBuckets.h"

namespace dtc {

struct WhenOptions : mlir::PassPipelineOptions<WhenOptions> {
  Option<uint64_t> memoryLimit{*this, "memory-limit", llvm::cl::desc("bytes for one rank's arena; 0: any"),
                               llvm::cl::init(0)};
  Option<int64_t> accumulation{*this, "accumulation", llvm::cl::desc("micro-batches in a step"), llvm::cl::init(1)};
  Option<std::string> timetable{*this, "timetable", llvm::cl::desc("of a pipeline: naive, gpipe or 1f1b"),
                                llvm::cl::init("1f1b")};
  Option<bool> overlapSteps{*this, "overlap-steps",
                            llvm::cl::desc("of a pipeline: the next step begins behind an early update"),
                            llvm::cl::init(false)};
  Option<bool> warnsOfBubble{*this, "warn-of-bubble",
                             llvm::cl::desc("of a pipeline: warn of fewer micro-batches than ranks"),
                             llvm::cl::init(true)};
  Option<uint64_t> gatherAhead{*this, "gather-ahead",
                               llvm::cl::desc("how far ahead of their readers parameters are gathered; as in dt-keep"),
                               llvm::cl::init(2)};
};

/// Which starts go together: as these rules say, and for others as a size and costs say. All rules go into `chosen`.
struct BucketOptions {
  std::vector<BucketRule> rules = {};
  abi::BucketSize size = {};
  StartCosts costs = {};
  std::vector<BucketRule> *chosen = nullptr;
};

/// Appends the passes that say what there is to run, and when: every collective is split into a start and a wait, and
/// timetables name the functions. The order of operations is the simple correct one.
void buildListsPipeline(mlir::OpPassManager &manager, const WhenOptions &options, const BucketOptions &buckets = {});

/// Appends the phase's passes: the lists, in the order that these rules make from the simple one, and every tensor has
/// its place in the arena.
void buildWhenPasses(mlir::OpPassManager &manager, const WhenOptions &options, const BucketOptions &buckets,
                     const std::vector<OrderRule> &order);
/// Appends the verifier that closes the phase.
void buildWhenVerifier(mlir::OpPassManager &manager, const WhenOptions &options);
/// Appends both, with the simple order.
void buildWhenPipeline(mlir::OpPassManager &manager, const WhenOptions &options);

/// Registers the phase's passes and "dt-when", the whole phase.
void registerWhen();

} // namespace dtc
