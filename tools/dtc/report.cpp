// dtc report: a page about a run.
#include "runtime/abi/timetables.h"
#include "runtime/program/run_files.h"
#include "runtime/support/error.h"
#include "runtime/support/output_file.h"
#include "tools/dtc/Colour.h"
#include "tools/dtc/Program.h"
#include "tools/dtc/TemporaryFolder.h"
#include "tools/dtc/Verbs.h"
#include "tools/dtc/forecast/ForecastTrace.h"
#include "tools/dtc/report/Page.h"
#include "tools/dtc/report/ReportData.h"

#include <nlohmann/json.hpp>

#include <memory>

using namespace dtc;

static constexpr const char *reportFooter =
    "\nWho did what when is known of steps that were traced: dtc run PROGRAM ... --trace 10-11\n\n"
    "Examples:\n"
    "  $ dtc report dtc-out -o report.html\n"
    "  $ dtc report dtc-out --cluster cluster.textproto      # which 'dtc calibrate' has written\n"
    "  $ dtc report runs/2 --compare runs/1 -o report.html\n"
    "  $ dtc report dtc-out --json | jq .load.stragglers\n";

namespace {

struct ReportOptions {
  std::string run, other, cluster, output = "report.html";
  bool json = false;
};

/// Writes the step predicted from the cluster file as a trace.
void foretell(const RunFolder &run, const std::string &cluster, const std::string &path) {
  if (!run.manifest)
    throw Error(ExitCode::BadInput, fmt::format("'{}' has no {}, which --cluster takes: run the program again",
                                                run.path, RunFiles::Manifest));
  timing::Step step = timing::readStep(*run.manifest, abi::stepTimetable);
  timing::Layout layout(timing::readCluster(cluster), run.manifest->mesh());
  ForecastTrace trace(*run.manifest, timing::EqualRanks(step, layout));
  trace.write(path, timing::simulate(step, layout, {}, &trace).seconds);
}

void report(const ReportOptions &options) {
  if (!options.json)
    requireWritable(options.output);
  ReportInputs inputs;
  RunFolder run = RunFolder::read(options.run);
  TemporaryFolder folder("dtc-report");
  if (!options.cluster.empty())
    foretell(run, options.cluster, inputs.predictedTrace = folder.at("predicted.json"));
  if (!options.other.empty())
    inputs.other = RunFolder::read(options.other);
  nlohmann::ordered_json data = reportData(run, inputs);
  if (options.json) {
    printJson(data);
    return;
  }
  std::string page = reportPage(data);
  AtomicFile file(options.output);
  file.append(page);
  file.publish(0666);
  say("{}: {} of {} steps, {}\n", options.output, run.lastStep, run.plannedSteps(),
      bytesText(static_cast<double>(page.size())));
}

} // namespace

void dtc::addReport(CLI::App &app) {
  auto [verb, options] =
      addVerb<ReportOptions>(app, "report",
                             "Write a page about a run that a browser shows without a network: who did what when, "
                             "memory, curves, communication, load, shards and settings.",
                             reportFooter);
  verb->add_option("OUT", options->run, "A run's folder: what --out of 'dtc run' named")->required();
  verb->add_option("--compare", options->other, "Another run's folder: draw its curves beside this one's");
  verb->add_option("--cluster", options->cluster,
                   "A cluster file (docs/clusters.md): draw the step predicted from it above the measured one");
  auto *output = verb->add_option("-o,--output", options->output, "The page")->capture_default_str();
  verb->add_flag("--json", options->json, "Answer for a program: what the page shows")->excludes(output);
  verb->callback([options] { report(*options); });
}
