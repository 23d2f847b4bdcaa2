// A small model through the whole compiler: Form 1 for the expectation, and the compiled manifest and code.
#pragma once

#include "frontends/Frontend.h"
#include "mlir/IR/DialectRegistry.h"
#include "passes/choices/PipelineTimetable.h"
#include "passes/pipelines/Compile.h"
#include "runtime/abi/manifest.pb.h"
#include "tools/verify/Statements.h"
#include "tools/verify/Verify.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace dtc::test {

struct ModelSetup {
  std::string model = {}; ///< below examples/; with a folder, below the sources
  std::string mesh = {}, strategy = {};
  int64_t accumulation = 1;
  int64_t batch = 4, sequence = 8;             ///< of one micro-batch over all ranks
  std::map<std::string, int64_t> symbols = {}; ///< replaced sizes
  double dropout = 0.1;
  std::string optimizer = "adamw";
  bool generateCode = false;
  bool expect = true; ///< compute the expectation: not feasible for large models
  std::string compute = "f32", gradients = "f32";
  uint64_t gatherAhead = 2;
  std::string target = "native";
  std::optional<bool> copies = {}; ///< as CompileOptions has it
  std::string timetable = "1f1b";  ///< of a pipeline
  Choices choices = {};            ///< all others
};

/// How a model is partitioned, and its name in tests.
struct Layout {
  const char *name, *mesh, *strategy;
  int64_t accumulation;
};

inline void PrintTo(const Layout &layout, std::ostream *out) { *out << layout.name; }

/// The name of a test of one model under one layout.
inline std::string nameOf(const testing::TestParamInfo<std::tuple<const char *, Layout>> &info) {
  std::string name = std::string(std::get<0>(info.param)) + "_" + std::get<1>(info.param).name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

/// Two layers, and sizes that do not divide: 13 tokens of vocabulary over two ranks are seven and six.
inline std::map<std::string, int64_t> smallSymbols(const std::string &model) {
  if (model == "llama-small")
    return {{"vocab", 13}, {"embed", 8},    {"layers", 2}, {"kv_heads", 2},
            {"group", 2},  {"head_dim", 4}, {"mlp", 12},   {"positions", 8}};
  return {{"vocab", 13}, {"embed", 8}, {"layers", 2}, {"heads", 4}, {"head_dim", 2}, {"mlp", 12}, {"positions", 8}};
}

/// Four layers, so that four stages have one each.
inline std::map<std::string, int64_t> fourLayers(const std::string &model) {
  std::map<std::string, int64_t> symbols = smallSymbols(model);
  symbols["layers"] = 4;
  return symbols;
}

/// A model of these sizes under a layout; `setup` says everything else.
inline ModelSetup smallSetup(const std::string &model, const Layout &layout, ModelSetup setup = {}) {
  setup.model = model;
  setup.mesh = layout.mesh;
  setup.strategy = layout.strategy;
  setup.accumulation = layout.accumulation;
  setup.symbols = smallSymbols(model);
  return setup;
}

/// Bytes of a rank in a category of `dtc inspect`.
inline uint64_t memoryOf(const abi::Role &role, std::string_view category) {
  for (const abi::MemoryUse &use : role.memory())
    if (use.category() == category)
      return use.bytes();
  return 0;
}

class CompiledModel {
public:
  explicit CompiledModel(const ModelSetup &setup) {
    mlir::DialectRegistry registry;
    registerFrontendDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    Model loaded = load(std::string(DTC_SOURCE_DIR) + "/" +
                            (setup.model.find('/') == std::string::npos ? "examples/" : "") + setup.model,
                        {setup.batch, setup.sequence, setup.dropout, setup.symbols}, context);
    CompileOptions options;
    options.what.accumulation = setup.accumulation;
    options.what.asynchronous = overlapsSteps(setup.timetable);
    options.what.earlyUpdate = setup.choices.overlapSteps;
    // Takes effect: the gradients of random parameters are larger.
    options.what.clipNorm = options.what.asynchronous ? 0 : 0.5;
    options.what.optimizer = setup.optimizer;
    options.what.compute = setup.compute;
    options.what.gradients = setup.gradients;
    options.choices = setup.choices;
    options.choices.gatherAhead = setup.gatherAhead;
    options.choices.timetable = setup.timetable;
    options.target = setup.target;
    options.copies = setup.copies;
    options.where.mesh = setup.mesh;
    options.where.strategy = setup.strategy;
    logical = loaded.module->clone();
    partitioned = loaded.module->clone();
    mlir::FailureOr<CompiledProgram> program = compile(*loaded.module, options, setup.generateCode);
    if (mlir::failed(program) || failed(runPhases(*logical, options, Phase::What)) ||
        failed(runPhases(*partitioned, options, Phase::Where)))
      return;
    manifest = program->manifest;
    sharedObject = program->code;
    succeeded = true;
    if (!setup.expect)
      return;
    manifest.mutable_training()->set_accumulation(setup.accumulation);
    abi::Role timetable = verify::timetableOf(setup.accumulation, verify::hasCopies(manifest));
    expectation = std::make_unique<verify::Expectation>(*logical, timetable, verify::vocabularyOf(manifest));
  }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> logical, partitioned;
  abi::Manifest manifest;
  std::string sharedObject; ///< empty unless code was generated; for GPUs the parts that the manifest names
  bool succeeded = false;
  std::unique_ptr<verify::Expectation> expectation; ///< null when compilation failed or none was asked for
};

} // namespace dtc::test
