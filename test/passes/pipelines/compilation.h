// Small models in several layouts, for tests of the planner and of the compiler.
#pragma once

#include "frontends/Frontend.h"
#include "passes/pipelines/Compile.h"
#include "passes/pipelines/Phases.h"
#include "passes/pipelines/search/Planner.h"
#include "test/e2e/compiled_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

namespace dtc::test {

struct Case {
  const char *name, *model, *mesh, *strategy;
  int64_t accumulation = 1;
  std::string compute = "f32";
};
inline void PrintTo(const Case &setup, std::ostream *out) { *out << setup.name; }

inline const Case setups[] = {
    {"ddp", "gpt-small", "dp=2", "ddp"},
    {"tensor_parallel", "llama-small", "dp=2,tp=2", "megatron-sp", 2},
    {"zero3", "gpt-small", "dp=2", "zero3"},
    {"zero1_narrow", "gpt-small", "dp=2", "zero1", 2, "bf16"},
    {"pipeline", "gpt-small", "dp=2,pp=2", "zero1", 4},
    {"pipeline_of_llama", "llama-small", "dp=2,tp=2,pp=2", "megatron", 2},
};

/// Bytes of the role that needs most.
inline uint64_t largestArena(const Plan &plan) {
  uint64_t most = 0;
  for (const PlannedRole &role : plan.roles)
    most = std::max(most, role.arena.bytes);
  return most;
}

class Compilation {
public:
  explicit Compilation(const Case &setup) : setup(setup) {
    mlir::DialectRegistry registry;
    registerFrontendDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    auto symbols = smallSymbols(setup.model);
    symbols["layers"] = 4;
    model = load(std::string(DTC_SOURCE_DIR) + "/examples/" + setup.model, {4, 8, 0.1, symbols}, context);
    options.what.accumulation = setup.accumulation;
    options.what.clipNorm = 0.5;
    options.what.compute = setup.compute;
    options.where.mesh = setup.mesh;
    options.where.strategy = setup.strategy;
  }

  mlir::OwningOpRef<mlir::ModuleOp> at(Phase last) {
    mlir::OwningOpRef<mlir::ModuleOp> module = model.module->clone();
    EXPECT_TRUE(mlir::succeeded(runPhases(*module, options, last)));
    return module;
  }

  std::unique_ptr<Planner> makePlanner() {
    std::unique_ptr<Planner> planner = Planner::create(*model.module, options);
    if (!planner)
      throw std::runtime_error("there is no planner of this model");
    return planner;
  }

  Case setup;
  mlir::MLIRContext context;
  Model model;
  CompileOptions options;
};

} // namespace dtc::test
