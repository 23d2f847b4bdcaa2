// dtc compile: from a model and a mesh to a program, or to the text of any phase on the way.
#include "frontends/Frontend.h"
#include "passes/pipelines/What.h"
#include "runtime/abi/error.h"
#include "tools/config/TrainingConfig.h"
#include "tools/dtc/Verbs.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/ToolOutputFile.h"

#include <fmt/format.h>

using namespace dtc;

namespace {

struct CompileVerbOptions {
  std::string model, configFile, output = "-", phase;
  std::vector<std::string> assignments;
  bool locations = false;
};

ModelOptions modelOptions(const abi::Training &training) {
  ModelOptions options;
  options.batch = training.global_batch() / training.accumulation();
  options.sequence = training.sequence_length();
  if (training.dropout() >= 0)
    options.dropout = training.dropout();
  return options;
}

void setWhatOptions(WhatOptions &options, const abi::Training &training) {
  options.accumulation = training.accumulation();
  options.optimizer = training.optimizer();
  options.beta1 = training.beta1();
  options.beta2 = training.beta2();
  options.epsilon = training.epsilon();
  options.weightDecay = training.weight_decay();
  options.momentum = training.momentum();
  options.clipNorm = training.clip_norm();
}

void writeText(mlir::ModuleOp module, const std::string &path, bool locations) {
  std::error_code code;
  llvm::ToolOutputFile file(path, code, llvm::sys::fs::OF_Text);
  if (code)
    throw Error(ExitCode::Runtime, fmt::format("cannot write '{}': {}", path, code.message()));
  module.print(file.os(), mlir::OpPrintingFlags().enableDebugInfo(locations));
  file.keep();
}

void compile(const CompileVerbOptions &options) {
  abi::Training training = readTraining(options.configFile, options.assignments);
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  Model model = load(options.model, modelOptions(training), context);
  if (options.phase == "what") {
    WhatOptions what;
    setWhatOptions(what, training);
    mlir::PassManager manager(&context);
    buildWhatPipeline(manager, what);
    if (failed(manager.run(*model.module)))
      throw Error(ExitCode::BadInput, fmt::format("{}: cannot be compiled", options.model));
  }
  writeText(*model.module, options.output, options.locations);
}

} // namespace

void dtc::addCompile(CLI::App &app) {
  auto options = std::make_shared<CompileVerbOptions>();
  CLI::App *verb = app.add_subcommand("compile", "Show a model in one of the compiler's forms.");
  verb->footer("\n  dtc compile examples/gpt-small --compile-to model\n");
  verb->add_option("MODEL", options->model, "A directory with a config.json (gpt2, llama), or a .mlir file")
      ->required();
  verb->add_option("--config", options->configFile, "Training settings (TOML)");
  verb->add_option("--set", options->assignments, "A training setting, as in --set steps=500; may be repeated");
  verb->add_option("--compile-to", options->phase, "Stop after a phase and write the module's text")
      ->check(CLI::IsMember({"model", "what"}))
      ->required();
  verb->add_flag("--locations", options->locations, "Write each operation's place in the model too");
  verb->add_option("-o,--output", options->output, "The file to write; - is the standard output")
      ->capture_default_str();
  verb->callback([options] { compile(*options); });
}
