// A module's places in memory, for tests: planned, proved, and read back.
#pragma once

#include "mlir/Pass/PassManager.h"
#include "passes/schedule/Passes.h"
#include "passes/schedule/memory/ArenaLayout.h"

namespace dtc::test {

inline mlir::FailureOr<ArenaLayout> planMemory(mlir::ModuleOp module, uint64_t limit = 0) {
  mlir::PassManager passes(module.getContext());
  PlanMemoryOptions options;
  options.limit = limit;
  passes.addPass(createPlanMemory(options));
  passes.addPass(createVerifyWhen());
  if (failed(passes.run(module)))
    return mlir::failure();
  return ArenaLayout::read(module);
}

} // namespace dtc::test
