// Modules of the phase "where" for tests: from a model's directory through the phase "what".
#pragma once

#include "frontends/Frontend.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"
#include "passes/pipelines/What.h"
#include "passes/pipelines/Where.h"
#include "gtest/gtest.h"

namespace dtc::test {

class WhereTest : public testing::Test {
protected:
  WhereTest() {
    mlir::DialectRegistry registry;
    registerFrontendDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    context.getDiagEngine().registerHandler([this](mlir::Diagnostic &diagnostic) {
      if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error)
        errors += diagnostic.str() + "\n";
    });
  }

  /// The step of a model (a directory below the sources) over whole tensors.
  mlir::OwningOpRef<mlir::ModuleOp> buildWhat(const std::string &model, const ModelOptions &options,
                                              int64_t accumulation = 1, const std::string &compute = "f32",
                                              const std::string &gradients = "f32") {
    mlir::OwningOpRef<mlir::ModuleOp> module = load(std::string(DTC_SOURCE_DIR) + "/" + model, options, context).module;
    mlir::PassManager manager(&context);
    WhatOptions what;
    what.accumulation = accumulation;
    what.clipNorm = 0.1;
    what.compute = compute;
    what.gradients = gradients;
    buildWhatPipeline(manager, what);
    EXPECT_TRUE(succeeded(manager.run(*module))) << errors;
    return module;
  }

  mlir::LogicalResult runWhere(mlir::ModuleOp module, const std::string &mesh, const std::string &strategy) {
    mlir::PassManager manager(&context);
    WhereOptions where;
    where.mesh = mesh;
    where.strategy = strategy;
    buildWherePipeline(manager, where);
    return manager.run(module);
  }

  mlir::MLIRContext context;
  std::string errors;
};

} // namespace dtc::test
