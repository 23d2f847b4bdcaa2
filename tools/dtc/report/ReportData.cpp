#include "tools/dtc/report/ReportData.h"

#include "passes/choices/PipelineTimetable.h"
#include "runtime/config/training_config.h"
#include "runtime/program/run_files.h"
#include "runtime/support/error.h"
#include "runtime/support/mapped_file.h"
#include "tools/dtc/Program.h"
#include "tools/dtc/report/Communication.h"
#include "tools/dtc/report/Load.h"
#include "tools/dtc/report/Memory.h"
#include "tools/dtc/report/Pipeline.h"
#include "tools/dtc/report/Residuals.h"
#include "tools/dtc/report/Sharding.h"
#include "tools/dtc/report/Timeline.h"

#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace dtc {

using Json = nlohmann::ordered_json;

/// Points of one curve: more than a page is wide.
static constexpr size_t MostPoints = 2000;
/// Bars of the timeline. Each takes about 15 bytes of the page.
static constexpr size_t MostBars = 60000;
/// Passes of a pipeline's step. In its picture each takes about 200 bytes of the page.
static constexpr size_t MostPasses = 6000;

/// JSON has no NaN and no infinity.
static Json valueJson(double value) { return std::isfinite(value) ? Json(value) : Json(); }

static Json seriesJson(const std::map<std::string, Series> &metrics) {
  Json answer = Json::object();
  for (const auto &[key, whole] : metrics) {
    Series series = thinned(whole, MostPoints);
    Json values = Json::array();
    for (double value : series.values)
      values.push_back(valueJson(value));
    answer[key] = {{"steps", series.steps}, {"values", values}, {"of", whole.steps.size()}};
  }
  return answer;
}

static Json programJson(const abi::Manifest &manifest) {
  int64_t parameters = 0;
  for (const abi::Parameter &parameter : manifest.parameters()) {
    int64_t elements = 1;
    for (int64_t size : parameter.logical_shape())
      elements *= size;
    parameters += elements;
  }
  Json mesh = Json::object();
  int64_t ranks = 1;
  for (const abi::Axis &axis : manifest.mesh().axes()) {
    mesh[axis.name()] = axis.size();
    ranks *= axis.size();
  }
  return {{"model", manifest.model_name()},
          {"parameters", parameters},
          {"mesh", mesh},
          {"ranks", ranks},
          {"strategy", manifest.strategy()},
          {"target", manifest.target()},
          {"timetable", timetableTitle(manifest.timetable())}};
}

/// How far the run came, in words; empty: to its end.
static std::string stateOf(const RunFolder &run) {
  if (!run.settings || run.lastStep >= run.plannedSteps())
    return "";
  if (run.isGoingOn)
    return fmt::format("The run goes on: {} of {} steps are done.", run.lastStep, run.plannedSteps());
  std::string saved = run.checkpoint ? fmt::format("its newest checkpoint is of step {}; 'dtc run PROGRAM --data FILE "
                                                   "--resume {}' goes on from there",
                                                   *run.checkpoint, run.path)
                                     : "it has left no checkpoint";
  return fmt::format("The run ended at step {} of {}: what was recorded is drawn. {}{}.", run.lastStep,
                     run.plannedSteps(), static_cast<char>(std::toupper(saved[0])), saved.substr(1));
}

static Json runJson(const RunFolder &run) {
  Json answer = {{"folder", run.path},
                 {"steps_done", run.lastStep},
                 {"steps_planned", run.plannedSteps()},
                 {"state", stateOf(run)},
                 {"remarks", run.remarks}};
  if (run.manifest)
    answer["program"] = programJson(*run.manifest);
  Json settings = Json::object();
  if (run.settings)
    for (const SettingValue &setting : listSettings(*run.settings))
      settings[setting.section][setting.key] = Json::parse(setting.value, nullptr, /*allow_exceptions=*/false);
  answer["settings"] = settings;
  answer["metrics"] = seriesJson(run.metrics);
  return answer;
}

/// How two runs differ, in sentences.
static Json differences(const Json &one, const Json &two) {
  Json answer = Json::array();
  auto compare = [&](const char *what, const Json &a, const Json &b) {
    if (a != b)
      answer.push_back({{"what", what}, {"values", {a, b}}});
  };
  Json none;
  for (const char *what : {"model", "parameters", "mesh", "strategy", "target", "timetable"}) {
    auto of = [&](const Json &run) { return run.contains("program") ? run["program"][what] : none; };
    compare(what, of(one), of(two));
  }
  for (const auto &[section, keys] : one["settings"].items())
    for (const auto &[key, value] : keys.items())
      compare(key.c_str(), value, two["settings"].value(section, Json::object()).value(key, none));
  return answer;
}

/// The trace; none where it does not exist or cannot be read, which is then reported.
static std::optional<RunTrace> readTrace(const RunFolder &run, std::vector<std::string> &remarks) {
  if (run.trace.empty()) {
    remarks.push_back(fmt::format("There is no {}: who did what when is not shown. To have it, run with --trace, as in "
                                  "'dtc run PROGRAM --data FILE --trace 10-11'.",
                                  RunFiles::Trace));
    return std::nullopt;
  }
  try {
    return RunTrace::parse(MappedFile(run.trace).text(), run.trace);
  } catch (const Error &error) {
    remarks.push_back(fmt::format("The trace cannot be read: {}.", error.what()));
    return std::nullopt;
  }
}

/// The step of a program with a pipeline, as predicted and as measured; null where there is neither.
static Json pipelineOf(const abi::Manifest &manifest, const RunTrace *predicted, const RunTrace *measured,
                       std::vector<std::string> &remarks) {
  if (!hasPipeline(manifest))
    return {};
  auto stepOf = [&](const RunTrace *trace) { return trace ? pipelineStepOf(*trace, manifest) : std::nullopt; };
  std::optional<PipelineStep> foretold = stepOf(predicted), traced = stepOf(measured);
  if (measured && !traced)
    remarks.push_back(fmt::format("{} has no whole step of this program's timetable on all stages: the measured "
                                  "pipeline is not shown.",
                                  RunFiles::Trace));
  if (!foretold && !traced)
    return {};
  return pipelineJson(manifest, foretold ? &*foretold : nullptr, traced ? &*traced : nullptr, MostPasses);
}

Json reportData(const RunFolder &run, const ReportInputs &inputs) {
  Json data = {{"schema", jsonSchema}, {"dtc", DTC_VERSION}, {"runs", {runJson(run)}}};
  if (inputs.other) {
    data["runs"].push_back(runJson(*inputs.other));
    data["differences"] = differences(data["runs"][0], data["runs"][1]);
  }
  std::vector<std::string> remarks = run.remarks;
  std::optional<RunTrace> trace = readTrace(run, remarks), predicted;
  if (!inputs.predictedTrace.empty())
    predicted = RunTrace::parse(MappedFile(inputs.predictedTrace).text(), inputs.predictedTrace);
  if (trace) {
    data["timeline"] = timelineJson(*trace, predicted ? &*predicted : nullptr, MostBars);
    if (predicted)
      data["residuals"] = residualsJson(*predicted, *trace);
    data["load"] = loadJson(*trace, run.manifest ? &*run.manifest : nullptr);
  }
  if (run.manifest) {
    const RunTrace *times = trace ? &*trace : nullptr, *foretold = predicted ? &*predicted : nullptr;
    if (Json pipeline = pipelineOf(*run.manifest, foretold, times, remarks); !pipeline.is_null())
      data["pipeline"] = std::move(pipeline);
    data["memory"] = memoryJson(*run.manifest, times);
    data["communication"] = communicationJson(*run.manifest, times);
    data["sharding"] = shardingJson(*run.manifest);
  }
  data["runs"][0]["remarks"] = remarks;
  return data;
}

} // namespace dtc
