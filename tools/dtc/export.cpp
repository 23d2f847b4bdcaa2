// dtc export: a model directory for other tools, created from a checkpoint.
#include "runtime/abi/element_type.h"
#include "runtime/checkpoint/export_model.h"
#include "runtime/program/start/command_line.h"
#include "runtime/support/log_line.h"
#include "tools/dtc/Colour.h"
#include "tools/dtc/Program.h"
#include "tools/dtc/Verbs.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

using namespace dtc;

static constexpr const char *exportFooter =
    "\nCheckpoints are model directories already: export leaves out what only training needs and writes the\n"
    "weights in another type. It also converts the directories of other tools.\n\n"
    "Examples:\n"
    "  $ dtc export runs/1 -o my-model --dtype bf16\n"
    "  $ dtc export runs/1/checkpoints/step-000500 -o my-model --shard-size 2GB\n";

namespace {

struct ExportVerbOptions {
  ExportOptions request;
  std::string type = std::string(abi::elementType(abi::F32).name);
  bool json = false;
};

std::vector<std::string> weightTypes() {
  std::vector<std::string> names;
  for (const abi::ElementType &type : abi::ElementTypes)
    if (type.isFloating())
      names.emplace_back(type.name);
  return names;
}

void exportTo(ExportVerbOptions options) {
  options.request.warn = [](const std::string &text) { tellWarning(text); };
  for (const abi::ElementType &type : abi::ElementTypes)
    if (type.name == options.type)
      options.request.type = type.type;
  ExportReport report = exportModel(options.request);
  if (options.json) {
    printJson({{"from", report.from},
               {"directory", options.request.to},
               {"dtype", options.type},
               {"tensors", report.tensors},
               {"files", report.files},
               {"bytes", report.bytes}});
    return;
  }
  say("{}: {} tensors in {}, {} in {} file{}, from {}\n", options.request.to, report.tensors, options.type,
      bytesText(static_cast<double>(report.bytes)), report.files, report.files == 1 ? "" : "s", report.from);
}

} // namespace

void dtc::addExport(CLI::App &app) {
  auto [verb, options] = addVerb<ExportVerbOptions>(
      app, "export", "Write a checkpoint as a model directory for other tools.", exportFooter);
  verb->add_option("DIRECTORY", options->request.from,
                   "A checkpoint, the folder of a run (its newest checkpoint), or a model directory")
      ->required();
  verb->add_option("-o,--output", options->request.to, "The directory to write; it must not exist yet")->required();
  verb->add_option("--dtype", options->type, "The type of the weights, rounded to nearest, ties to even")
      ->check(CLI::IsMember(weightTypes()))
      ->capture_default_str();
  takeSize(verb->add_option("--shard-size", options->request.shardBytes,
                            "The most bytes of weights in a file, as in 5GB or 512MiB; more are split into several "
                            "files with a model.safetensors.index.json")
               ->check(atLeast(1))
               ->capture_default_str());
  verb->add_flag("!--no-verify-checkpoint", options->request.verify,
                 "Take a checkpoint as it is, without checking it against its checksums");
  verb->add_flag("--json", options->json, "Answer for a program");
  verb->callback([options] { exportTo(*options); });
}
